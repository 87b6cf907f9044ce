"""Settings of the property tests: nothing is kept between runs, and a failure prints how to repeat it."""

from hypothesis import settings

settings.register_profile("sdk", database=None, deadline=None, max_examples=60, print_blob=True)
settings.load_profile("sdk")

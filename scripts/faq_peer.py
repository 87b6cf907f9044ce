#!/usr/bin/env python3
"""scipy's FAQ as a peer of `fairbell-lab bench plan`: one problem per line in, one answer per line out.

Only the call is timed; the start is the barycentre, scipy's default.
"""
import json
import sys
import time

import numpy
from scipy.optimize import quadratic_assignment


def main():
    for line in sys.stdin:
        problem = json.loads(line)
        a, b = numpy.array(problem["a"]), numpy.array(problem["b"])
        times = []
        for _ in range(problem["repeat"] + 1):
            begin = time.perf_counter_ns()
            result = quadratic_assignment(a, b, method="faq")
            times.append(time.perf_counter_ns() - begin)
        # The first call warms up.
        times = sorted(times[1:])
        answer = {"cost": float(result.fun), "ns": times[len(times) // 2]}
        print(json.dumps(answer), flush=True)


main()

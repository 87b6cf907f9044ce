"""The page beside a feed that makes mistakes, and one that is fast. Seeds are printed."""

import time

from conftest import until

LEVELS = 12


def shown(page, side):
    rows = page.locator(f"#{side} tr").evaluate_all("rows => rows.map(row => [row.cells[0].textContent, row.cells[1].textContent])")
    rows = [tuple(row) for row in rows if row[0]]
    return rows[::-1] if side == "asks" else rows


def true_levels(running):
    """Bids and asks as the ladder should show them, and the book's number."""
    async def read():
        running.door.paused = True
        market = running.door.market
        symbol = market.symbols[0]
        return market.levels(symbol), market.stands[symbol]

    (bids, asks), seq = running.call(read())
    return [tuple(level) for level in bids[:LEVELS]], [tuple(level) for level in asks[:LEVELS]], seq


def counters(page):
    return {name: int(value) for name, value in page.evaluate("({...document.querySelector('#feed').dataset})").items()}


def compare(page, running):
    bids, asks, seq = true_levels(running)
    until(page, f"document.querySelector('#feed').textContent.includes('book at {seq},')")
    assert (shown(page, "bids"), shown(page, "asks")) == (bids, asks)
    return seq


def test_a_book_survives_gaps_wrong_checksums_lost_connections_and_resyncs(pages, feed):
    seed = 2_811
    print("seed", seed)
    running = feed(seed=seed, rate=150, faults=["checksum", "gap", "drop", "slow"])
    page = pages.open(running.base)
    deadline = time.monotonic() + 120
    while min(running.door.told[fault] for fault in ("checksum", "gap", "drop", "slow")) < 2:
        assert time.monotonic() < deadline, running.door.told
        page.wait_for_timeout(500)
    running.door.faults = []
    page.wait_for_timeout(6_000)
    page.locator("#link[data-state=live]").wait_for()
    compare(page, running)
    told = running.door.told
    found = counters(page)
    print(told, found)
    # Each wrong checksum and each gap makes the page ask for the book again; each new connection, too.
    assert found["resyncs"] >= told["checksum"] + told["gap"] + told["slow"] - 2
    assert told["snapshots"] >= 1 + told["checksum"] + told["gap"] + told["drop"] - 2
    # Control: the book of another seed is not what is shown.
    other = feed(seed=seed + 1, rate=1)
    bids, asks, _ = true_levels(other)
    assert shown(page, "bids") != bids


def test_a_thousand_updates_a_second_do_not_stall_it(pages, feed):
    seed, seconds, rate = 2_812, 15, 1_000
    print("seed", seed)
    running = feed(seed=seed, rate=rate)
    page = pages.open(running.base)
    page.wait_for_timeout(1_000)
    page.evaluate("""() => {
      window.seen = { live: 0, frames: 0, gaps: [] };
      for (const region of document.querySelectorAll('[aria-live], [role=status], [role=alert]')) {
        new MutationObserver(() => { window.seen.live += 1; }).observe(region, { childList: true, characterData: true, subtree: true });
      }
      let before = performance.now();
      const frame = (now) => { window.seen.frames += 1; window.seen.gaps.push(now - before); before = now; requestAnimationFrame(frame); };
      requestAnimationFrame(frame);
    }""")
    first, begun, n = counters(page), time.monotonic(), 0
    # Somebody types meanwhile, and the page answers; on a busy machine the feed itself is slower, and it takes longer.
    while n < seconds or counters(page)["updates"] - first["updates"] < rate * seconds / 2:
        assert n < 6 * seconds, "the feed itself is too slow here to show anything"
        page.locator("#qty").fill(str(n + 1))
        assert page.locator("#qty").input_value() == str(n + 1)
        page.wait_for_timeout(1_000)
        n += 1
    seen = page.evaluate("window.seen")
    last, took = counters(page), time.monotonic() - begun
    compare(page, running)
    updates, frames = last["updates"] - first["updates"], last["frames"] - first["frames"]
    gaps = sorted(seen["gaps"])
    print(f"{updates / took:.0f} updates/s, {frames / took:.0f} renders/s, longest render {last['longest']} ms, "
          f"frame gaps p50 {gaps[len(gaps) // 2]:.0f} ms, p99 {gaps[len(gaps) * 99 // 100]:.0f} ms, max {gaps[-1]:.0f} ms")
    # Nothing is lost, nothing read out, and what is written is a matter of frames, not of messages.
    assert last["resyncs"] == 0 and seen["live"] == 0
    assert frames <= 1.1 * seen["frames"] + 20 and frames < updates / 3


def test_the_page_shows_what_the_screen_is_wide_enough_for(pages, feed, pictures):
    running = feed(seed=2_813, rate=40)
    for width, height in ((390, 844), (800, 1000), (1600, 1000)):
        page = pages.open(running.base, width, height)
        page.wait_for_timeout(500)
        assert page.evaluate("document.documentElement.scrollWidth") <= width, "nothing has to be scrolled sideways"
        for theme in ("dark", "light"):
            page.locator("#theme").click()
            assert page.evaluate("document.documentElement.dataset.theme") == theme
            scheme = page.evaluate("getComputedStyle(document.documentElement).colorScheme")
            assert scheme == theme


def test_markets_are_found_and_selected_by_keyboard(pages, feed):
    running = feed(seed=2_814, rate=20, symbols=[f"S{n:03}" for n in range(300)])
    page = pages.open(running.base)
    page.locator("#market-rows tr").first.wait_for()
    assert page.locator("#market-rows tr").count() == 100, "no more rows than one can read"
    page.keyboard.press("m")
    page.keyboard.type("s27")
    page.keyboard.press("Enter")
    until(page, "document.querySelector('#sum-symbol').textContent === 'S270'")
    until(page, "document.querySelector('#book-note').hidden")
    market = running.door.market
    assert shown(page, "asks")[0][0] == market.levels("S270")[1][0][0]
    # Prices by arrow keys; Enter takes one to the ticket.
    page.locator("#book-title").focus()
    page.keyboard.press("k")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("Enter")
    assert page.locator("#price").input_value() == shown(page, "bids")[2][0]
    # Off is off.
    page.keyboard.press("?")
    page.locator("#keys-on").uncheck()
    page.keyboard.press("Escape")
    page.keyboard.press("m")
    assert not page.evaluate("document.activeElement.id === 'market-find'")

"""Pages that trade on a real exchange, `fairbell up --web`."""

import json
import time
import urllib.error
import urllib.request

import pytest

from conftest import SECRETS, until


def sign_in(page, key, secret=None):
    page.locator("#key").fill(key)
    page.locator("#secret").fill(secret or SECRETS[key])
    page.locator("#sign-in button").click()


def signed_in(page, key):
    sign_in(page, key)
    page.locator("#signed-in").wait_for()


def enter(page, side, qty, price=None, tif="day", post_only=False):
    """Fills the ticket in as a user would, and sends it."""
    page.locator(f"input[name=side][value={side}]").check()
    page.locator(f"input[name=type][value={'limit' if price else 'market'}]").check()
    page.locator("#qty").fill(qty)
    page.locator("#tif").select_option(tif)
    if price:
        page.locator("#price").fill(price)
        page.locator("#post-only").set_checked(post_only)
    page.locator("#send").click()
    until(page, "!document.querySelector('#send[aria-disabled]')")


def rows(page, body):
    return page.locator(f"#{body} tr").evaluate_all("rows => rows.map(row => [...row.cells].map(cell => cell.textContent.trim()))")


def levels(page, side):
    found = [row[:2] for row in rows(page, side) if row[0]]
    return found[::-1] if side == "asks" else found


def open_orders(page):
    """Side, price, open, filled."""
    return [[row[2], row[3], row[4], row[5]] for row in rows(page, "open-rows")]


@pytest.fixture
def two(pages, exchange):
    """Two pages that are signed in, with no orders of theirs."""
    for key in ("one", "two"):
        if exchange.ask(key, "GET", "/v1/orders")["orders"]:
            exchange.ask(key, "DELETE", "/v1/orders")
    one, other = pages.open(exchange.base), pages.open(exchange.base, 390, 844, "light")
    signed_in(one, "one")
    signed_in(other, "two")
    until(one, lambda: (levels(one, "bids"), levels(one, "asks")), ([], []))
    return one, other


def test_a_wrong_secret_does_not_sign_in_and_a_right_one_is_kept_nowhere(pages, exchange):
    page = pages.open(exchange.base)
    assert page.locator("#send").is_disabled()
    sign_in(page, "one", "not the secret at all")
    until(page, lambda: "bad_signature" in page.locator("#sign-in-result").inner_text(), True)
    assert page.locator("#signed-in").is_hidden()
    sign_in(page, "nobody", "not the secret at all")
    until(page, lambda: "unknown_key" in page.locator("#sign-in-result").inner_text(), True)
    signed_in(page, "one")
    kept = page.evaluate("""async () => JSON.stringify([{ ...localStorage }, { ...sessionStorage }, document.cookie, await indexedDB.databases(),
        document.documentElement.outerHTML, [...document.querySelectorAll('input')].map(input => input.value), location.href])""")
    assert SECRETS["one"] not in kept
    page.reload()
    page.locator("#sign-in").wait_for()
    assert page.locator("#signed-in").is_hidden()


def test_a_key_that_may_not_trade_is_told_so(pages, exchange):
    page = pages.open(exchange.base)
    sign_in(page, "reader", SECRETS["one"])
    page.locator("#signed-in").wait_for()
    enter(page, "buy", "1", "50")
    until(page, lambda: "wrong_scope" in page.locator("#ticket-result").inner_text(), True)


def test_orders_are_entered_replaced_traded_and_cancelled(two, exchange):
    one, other = two
    enter(one, "buy", "10", "100")
    until(one, lambda: open_orders(one), [["Buy", "100.00", "10", "0"]])
    for page in two:
        until(page, lambda page=page: levels(page, "bids"), [["100.00", "10"]])
    assert rows(one, "bids")[0][3].startswith("1"), "one's own order is marked"
    assert rows(other, "bids")[0][3] == ""
    # What is no price or quantity is not sent.
    enter(one, "buy", "1.5", "100.005")
    assert "whole" in one.locator("#qty-error").inner_text() and "multiples" in one.locator("#price-error").inner_text()
    assert len(exchange.ask("one", "GET", "/v1/orders")["orders"]) == 1
    # Replaced: another price and a larger total.
    one.locator("#open-rows button", has_text="Replace").click()
    assert one.locator("#price").input_value().startswith("100")
    one.locator("#price").fill("99.5")
    one.locator("#qty").fill("12")
    one.locator("#send").click()
    until(one, lambda: open_orders(one), [["Buy", "99.50", "12", "0"]])
    until(other, lambda: levels(other, "bids"), [["99.50", "12"]])
    # The other page sells into it.
    enter(other, "sell", "5", "99.5", tif="ioc")
    until(one, lambda: open_orders(one), [["Buy", "99.50", "7", "5"]])
    until(one, lambda: [row[1:5] for row in rows(one, "fill-rows")][:1], [["GENA", "Buy", "99.50", "5"]])
    until(other, lambda: [row[1:5] for row in rows(other, "fill-rows")][:1], [["GENA", "Sell", "99.50", "5"]])
    for page in two:
        until(page, lambda page=page: levels(page, "bids"), [["99.50", "7"]])
        until(page, lambda page=page: [row[1:] for row in rows(page, "tape") if row[0]][0], ["Sell", "99.50", "5"])
    until(one, lambda: rows(one, "position-rows"), [["GENA", "5", "5", "0", "-497.5"]])
    until(other, lambda: rows(other, "position-rows"), [["GENA", "-5", "0", "5", "497.5"]])
    # A post-only order that would take is refused or cancelled, and trades nothing.
    enter(other, "sell", "1", "99.5", post_only=True)
    until(other, lambda: open_orders(other), [])
    until(one, lambda: open_orders(one), [["Buy", "99.50", "7", "5"]])
    # A market order takes what is there.
    enter(other, "sell", "2")
    until(one, lambda: open_orders(one), [["Buy", "99.50", "5", "7"]])
    # Cancelled: gone from list and book; the exchange says the same.
    one.locator("#open-rows button", has_text="Cancel").click()
    until(one, lambda: (open_orders(one), levels(one, "bids")), ([], []))
    assert exchange.ask("one", "GET", "/v1/orders")["orders"] == []
    one.locator("#closed summary").click()
    until(one, lambda: [row[5] for row in rows(one, "closed-rows")][:1], ["cancelled"])
    assert one.locator("#feed").get_attribute("data-resyncs") == "0"


def test_everything_can_be_done_with_the_keyboard(two):
    one, _ = two
    one.locator("#orders-title").focus()
    for price in ("101.07", "101.08", "101.09"):
        one.keyboard.press("s")
        one.keyboard.type("4")
        one.keyboard.press("Tab")
        one.keyboard.press("Control+a")
        one.keyboard.type(price)
        one.keyboard.press("Enter")
        until(one, lambda price=price: price in [row[1] for row in open_orders(one)], True)
        one.locator("#orders-title").focus()
    # The first button behind the heading of the orders is theirs: Tab reaches it, and it shows that it has the focus.
    one.keyboard.press("o")
    one.keyboard.press("Tab")
    assert one.evaluate("document.activeElement.id") == "cancel-all"
    assert one.evaluate("getComputedStyle(document.activeElement).outlineStyle") != "none"
    one.keyboard.press("Tab")
    one.keyboard.press("Tab")
    assert "Replace" in one.evaluate("document.activeElement.textContent")
    one.keyboard.press("Tab")
    one.keyboard.press("Enter")
    until(one, lambda: len(open_orders(one)), 2)
    until(one, lambda: one.evaluate("document.activeElement.id"), "orders-title")
    one.keyboard.press("x")
    one.locator("#confirm").wait_for()
    one.keyboard.press("Escape")
    one.wait_for_timeout(500)
    assert len(open_orders(one)) == 2, "Escape cancels nothing"
    one.keyboard.press("x")
    one.locator("#confirm").wait_for()
    one.keyboard.press("Tab")
    assert "Cancel all" in one.evaluate("document.activeElement.textContent")
    one.keyboard.press("Enter")
    until(one, lambda: (open_orders(one), levels(one, "asks")), ([], []))


def test_decimal_lots_and_small_ticks(two):
    one, other = two
    for page in two:
        page.locator("#market-rows button", has_text="GENB").click()
        until(page, "document.querySelector('#book-note').hidden")
    enter(one, "sell", "0.125", "3.0015", tif="gtc")
    until(other, lambda: levels(other, "asks"), [["3.0015", "0.125"]])
    enter(other, "buy", "0.025", "3.0015", tif="fok")
    until(one, lambda: open_orders(one), [["Sell", "3.0015", "0.1", "0.025"]])
    enter(other, "buy", "5", "3.0015", tif="fok")
    other.wait_for_timeout(1_000)
    assert open_orders(one) == [["Sell", "3.0015", "0.1", "0.025"]], "all or nothing"


def state_of(exchange, key, order):
    return exchange.ask(key, "GET", f"/v1/orders/{order}")["state"]


def test_the_dead_mans_switch_cancels_when_the_page_is_gone(two, exchange):
    one, other = two
    one.locator("#dead-man-time").select_option("5000")
    one.locator("#dead-man-switch").click()
    until(one, lambda: one.locator("#dead-man-switch").get_attribute("aria-pressed"), "true")
    enter(one, "buy", "3", "98")
    until(other, lambda: levels(other, "bids"), [["98.00", "3"]])
    order = rows(one, "open-rows")[0][0]
    # Control: while the page is there, the order is, too.
    one.wait_for_timeout(11_000)
    assert state_of(exchange, "one", order) == "open"
    one.close()
    until(other, lambda: levels(other, "bids"), [])
    assert state_of(exchange, "one", order) == "cancelled"


def phases(page):
    return {row[0]: row[1] for row in rows(page, "phase-rows")}


def test_an_operator_halts_a_market_and_uses_the_kill_switch(two, pages, exchange, axe, pictures):
    one, other = two
    enter(one, "buy", "3", "95")
    until(other, lambda: levels(other, "bids"), [["95.00", "3"]])
    # Nobody else sees the operators' view, and the door refuses it to others, too.
    assert one.locator("#operator").is_hidden()
    with pytest.raises(urllib.error.HTTPError, match="403"):
        exchange.ask("one", "POST", "/v1/operator", {"action": {"halt": {"instrument": "GENA"}}})
    view = pages.open(exchange.base)
    signed_in(view, "operator")
    view.locator("#operator").wait_for()
    until(view, lambda: phases(view), {"GENA": "continuous", "GENB": "continuous"})
    # Halted: told to pages, orders are refused, cancels are not.
    view.locator("#phase-rows button", has_text="Halt").first.click()
    view.locator("#operator-confirm").wait_for()
    view.keyboard.press("Escape")
    view.wait_for_timeout(500)
    assert phases(view)["GENA"] == "continuous", "Escape halts nothing"
    view.locator("#phase-rows button", has_text="Halt").first.click()
    view.locator("#operator-confirm button", has_text="Do it").click()
    for page in two:
        until(page, lambda page=page: page.locator("#sum-state").inner_text(), "halted")
    until(view, lambda: phases(view), {"GENA": "halt", "GENB": "continuous"})
    enter(one, "buy", "1", "94")
    until(one, lambda: "rejected" in one.locator("#ticket-result").inner_text(), True)
    view.screenshot(path=pictures / "operator-1600.png", full_page=True)
    assert violations(view, axe) == []
    one.locator("#open-rows button", has_text="Cancel").click()
    until(one, lambda: (open_orders(one), levels(other, "bids")), ([], []))
    view.locator("#phase-rows button", has_text="Resume").first.click()
    until(one, lambda: one.locator("#sum-state").inner_text(), "trading")
    enter(one, "buy", "2", "94")
    until(other, lambda: levels(other, "bids"), [["94.00", "2"]])
    # The kill switch of one account: its orders go, those of the other stay, and it may enter none until it is revived.
    enter(other, "buy", "1", "93")
    view.locator("#kill-account").fill("PAGEA")
    view.locator("#kill").click()
    view.locator("#operator-confirm button", has_text="Do it").click()
    until(other, lambda: levels(other, "bids"), [["93.00", "1"]])
    until(view, lambda: "Killed: PAGEA" in view.locator("#operator-line").inner_text(), True)
    enter(one, "buy", "1", "92")
    until(one, lambda: "rejected" in one.locator("#ticket-result").inner_text(), True)
    view.locator("#kill-account").fill("PAGEA")
    view.locator("#revive").click()
    until(view, lambda: "Killed: nobody" in view.locator("#operator-line").inner_text(), True)
    enter(one, "buy", "1", "92")
    until(other, lambda: levels(other, "bids"), [["93.00", "1"], ["92.00", "1"]])
    # A mistake is told, and what was done is in the audit file in the key's name.
    view.locator("#kill-account").fill("NOBODY")
    view.locator("#revive").click()
    until(view, lambda: "NOBODY" in view.locator("#operator-result").inner_text(), True)
    audit = [json.loads(line) for line in exchange.audit.read_text().splitlines()]
    assert any("operator" in json.dumps(line) and "PAGEA" in json.dumps(line) for line in audit)
    view.locator("#sign-out").click()
    view.locator("#sign-in").wait_for()
    assert view.locator("#operator").is_hidden()


def test_fairness_and_tree_are_those_of_the_door(two, exchange):
    one, other = two
    for n in range(5):
        enter(other, "buy", str(1 + n), str(90 - n))
    told = json.load(urllib.request.urlopen(exchange.base + "/v1/fairness"))["venue"]
    assert len(told["receivers"]) == 3
    until(one, lambda: int(one.locator("#fair-messages").inner_text()) > 0, True)
    until(one, lambda: one.locator("#fair-on-time").inner_text().endswith("%"), True)
    assert len(rows(one, "receiver-rows")) == 3
    tree = json.load(urllib.request.urlopen(exchange.base + "/v1/tree"))
    assert one.locator("#tree-picture circle").count() == len(tree["nodes"])
    links = [node for node in tree["nodes"] if node["parent"] is not None]
    assert one.locator("#tree-picture line").count() == len(links)
    assert "3 receivers" in one.locator("#tree-picture").get_attribute("aria-label")
    # Delays of receivers come with the messages.
    until(one, lambda: one.locator("#tree-picture .delay", has_text="s").count() >= 3, True)


def test_a_machine_that_dies_is_shown(pages, start_exchange, tmp_path, pictures):
    doomed = start_exchange(tmp_path, "--fail-gateway", "2", "--after", "3s")
    try:
        page = pages.open(doomed.base)
        page.locator("#tree-told").wait_for()
        assert page.locator("#tree-picture .dead").count() == 0
        until(page, lambda: page.locator("#tree-picture .dead").count(), 1)
        assert "Gone: R2" in page.locator("#tree-line").inner_text()
        page.locator("#tree").screenshot(path=pictures / "tree-dead.png")
    finally:
        doomed.stop()


def test_orders_go_with_the_connection_where_that_is_asked_for(two, exchange):
    one, other = two
    enter(other, "sell", "3", "103")
    until(one, lambda: levels(one, "asks"), [["103.00", "3"]])
    enter(one, "sell", "2", "104")
    until(other, lambda: levels(other, "asks"), [["103.00", "3"], ["104.00", "2"]])
    one.locator("#cancel-on-disconnect").check()
    until(one, lambda: "cancelled when this page" in one.locator("#news").inner_text(), True)
    order = rows(one, "open-rows")[0][0]
    one.close()
    until(other, lambda: levels(other, "asks"), [["103.00", "3"]])
    assert state_of(exchange, "one", order) == "cancelled"


def test_the_page_comes_back_by_itself(two, pages, exchange, cable):
    one, _ = two
    between = cable(exchange.base)
    other = pages.open(between.base)
    signed_in(other, "two")
    enter(one, "buy", "2", "97")
    until(other, lambda: levels(other, "bids"), [["97.00", "2"]])
    between.cut()
    until(other, lambda: other.locator("#link").get_attribute("data-state") != "live")
    until(other, lambda: levels(other, "bids"), [])
    exchange.ask("one", "DELETE", "/v1/orders")
    exchange.ask("two", "POST", "/v1/orders", {"symbol": "GENA", "side": "buy", "qty": "6", "price": "96"})
    between.mend()
    other.locator("#link[data-state=live]").wait_for()
    until(other, lambda: (levels(other, "bids"), open_orders(other)), ([["96.00", "6"]], [["Buy", "96.00", "6", "0"]]))


def violations(page, axe):
    # As an extension's would be: the page's policy takes no script of others.
    page.context.new_cdp_session(page).send("Runtime.evaluate", {"expression": axe})
    found = page.evaluate("async () => (await axe.run(document)).violations.map(one => [one.id, one.help, one.nodes.map(node => node.html.slice(0, 120))])")
    return found


def test_accessibility_and_pictures(two, pages, exchange, axe, pictures):
    one, other = two
    for n in range(4):
        enter(one, "buy", str(7 + 2 * n), str(100 - n))
        enter(other, "sell", str(5 + 3 * n), str(101 + n))
    enter(other, "sell", "3", "100", tif="ioc")
    enter(other, "sell", "2", "100", tif="ioc")
    until(one, lambda: len(rows(one, "fill-rows")) >= 2, True)
    for page, width, height in ((one, 1600, 1000), (other, 390, 844)):
        page.set_viewport_size({"width": width, "height": height})
        for theme in ("dark", "light"):
            while page.evaluate("document.documentElement.dataset.theme") != theme:
                page.locator("#theme").click()
            # As high as the page, so that nothing that sticks to an edge hides a part.
            page.set_viewport_size({"width": width, "height": max(height, page.evaluate("document.documentElement.scrollHeight"))})
            page.wait_for_timeout(700)
            page.screenshot(path=pictures / f"page-{width}-{theme}.png")
            page.set_viewport_size({"width": width, "height": height})
            assert violations(page, axe) == []
            page.locator("#help").click()
            page.screenshot(path=pictures / f"shortcuts-{width}-{theme}.png")
            assert violations(page, axe) == []
            page.keyboard.press("Escape")
    # Signed out, and with complaints of the ticket.
    one.locator("#qty").fill("x")
    one.locator("#send").click()
    one.locator("#qty[aria-invalid]").wait_for()
    assert violations(one, axe) == []
    one.locator("#sign-out").click()
    one.locator("#sign-in").wait_for()
    assert violations(one, axe) == []
    # Control: the check finds what is wrong.
    one.evaluate("document.querySelector('label[for=qty]').remove()")
    assert "label" in [found[0] for found in violations(one, axe)]


def test_the_policy_takes_no_script_of_others(pages, exchange):
    page = pages.open(exchange.base)
    ran = page.evaluate("""() => {
      const script = document.createElement('script');
      script.textContent = 'window.ran = true';
      document.head.append(script);
      return window.ran === true;
    }""")
    assert not ran
    # That was the control's own complaint.
    assert any("Content Security" in text for text in pages.trouble)
    pages.trouble.clear()

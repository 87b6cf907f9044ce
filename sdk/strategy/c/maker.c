/* ../examples/maker.rs in C: quotes both sides near the best prices of the others, and no side that would add to a
 * holding that is large enough. Settings: `lots=1` of each quote, `offset=0` price units behind the best price,
 * `most=10` lots held. It asks for what the one in Rust asks for. */
#include "fairbell.h"

static int64_t lots = 1, offset, most = 10;

const char *fb_start(const struct fb_setup *setup) {
    if (!fb_setting(setup, "lots", &lots) || !fb_setting(setup, "offset", &offset) ||
        !fb_setting(setup, "most", &most)) {
        return "a setting is no number";
    }
    return lots < 1 || lots > 1000000 ? "lots: 1 to 1000000" : NULL;
}

/* The best price of others than this strategy; 0: there is none. */
static int64_t best(const struct fb_book *book, enum fb_side side, const struct fb_level *levels, uint32_t len) {
    for (uint32_t at = 0; at < len; at++) {
        uint64_t own = 0;
        for (uint32_t of = 0; of < book->orders_len; of++) {
            const struct fb_own_order *order = &book->orders[of];
            if (order->working && order->side == side && order->price == levels[at].price) {
                own += order->open;
            }
        }
        if (levels[at].lots > own) {
            return levels[at].price;
        }
    }
    return 0;
}

static void quote(const struct fb_book *book, enum fb_side side) {
    bool buys = side == FB_BUY;
    int64_t held = buys ? book->held : -book->held;
    int64_t at = buys ? best(book, side, book->bids, book->bids_len) : best(book, side, book->asks, book->asks_len);
    int64_t target = at + (buys ? -offset : offset);
    bool wanted = at > 0 && target > 0 && held + lots <= most, quoted = false;
    for (uint32_t of = 0; of < book->orders_len; of++) {
        const struct fb_own_order *order = &book->orders[of];
        if (order->side != side || order->leaving) {
            continue;
        }
        if (wanted && order->price == target && !quoted) {
            quoted = true;
        } else {
            fb_cancel(order->id);
        }
    }
    if (wanted && !quoted) {
        fb_order(book->instrument, side, (uint32_t)lots, target, FB_DAY, true);
    }
}

void fb_on_book(const struct fb_book *book) {
    quote(book, FB_BUY);
    quote(book, FB_SELL);
}

void fb_on_trade(const struct fb_trade *trade) { (void)trade; }

void fb_on_report(const struct fb_report *report) { (void)report; }

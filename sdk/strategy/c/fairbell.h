/* Strategies for Fairbell in C: a module of the interface crates/strategy/wit/strategy.wit, without a library.
 *
 * A strategy defines fb_start, fb_on_book, fb_on_trade and fb_on_report, and answers with fb_order and fb_cancel.
 * fairbell.c, which is compiled with it, exports them as the component model's canonical ABI has it. What is told
 * is valid until the function returns; what is to be remembered is copied into static variables. There is no heap,
 * no clock and no floating point: see docs/strategies.md. Prices are whole numbers of units of 10^-price_decimals of
 * the quote currency, quantities are lots, times are ns since the Unix epoch.
 *
 * clang --target=wasm32 -O2 -ffreestanding -nostdlib -Wl,--no-entry -o maker.wasm maker.c fairbell.c
 */
#ifndef FAIRBELL_H
#define FAIRBELL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Actions in answer to one piece of news that are kept; more stop the program. */
#define FB_ACTIONS_MAX 256

enum fb_side { FB_BUY, FB_SELL };
enum fb_life { FB_DAY, FB_IMMEDIATE_OR_CANCEL };
enum fb_report_kind { FB_ACCEPTED, FB_EXECUTED, FB_REJECTED, FB_CANCEL_REJECTED, FB_CHANGED, FB_ENDED };

/* Text of `len` bytes, UTF-8, without a zero at its end. */
struct fb_text {
    const char *at;
    uint32_t len;
};

/* An instrument: its number from 1, the smallest step of a price, decimal places of one lot. */
struct fb_instrument {
    uint16_t id;
    struct fb_text symbol;
    int64_t tick;
    uint8_t lot_decimals;
};

struct fb_setup {
    const struct fb_instrument *instruments;
    uint32_t instruments_len;
    uint8_t price_decimals;
    /* What the account configured for this strategy. */
    struct fb_text settings;
};

struct fb_level {
    int64_t price;
    uint64_t lots;
};

/* An order of the strategy that may still trade. `working`: the exchange has taken it. `leaving`: a cancel is on
 * its way. */
struct fb_own_order {
    uint32_t id;
    uint8_t side;
    int64_t price;
    uint64_t open;
    bool working;
    bool leaving;
};

/* The displayed book of an instrument has changed: levels best first, ten at most, own orders included. */
struct fb_book {
    uint64_t time_ns;
    uint16_t instrument;
    const struct fb_level *bids;
    uint32_t bids_len;
    const struct fb_level *asks;
    uint32_t asks_len;
    /* Lots held; negative: short. */
    int64_t held;
    const struct fb_own_order *orders;
    uint32_t orders_len;
};

/* A trade that the public was told of; without an aggressor in an auction. */
struct fb_trade {
    uint64_t time_ns;
    uint64_t happened_ns;
    uint16_t instrument;
    int64_t price;
    uint64_t lots;
    bool has_aggressor;
    enum fb_side aggressor;
};

/* What became of an order of the strategy: lots that the report is about, lots that may still trade. */
struct fb_report {
    uint64_t time_ns;
    uint64_t happened_ns;
    uint16_t instrument;
    uint32_t id;
    enum fb_report_kind kind;
    enum fb_side side;
    int64_t price;
    uint64_t lots;
    uint64_t left;
    /* The order rested in the book when it traded. */
    bool rested;
};

/* Called once, before anything else. NULL, or why it can't run. */
const char *fb_start(const struct fb_setup *setup);
void fb_on_book(const struct fb_book *book);
void fb_on_trade(const struct fb_trade *trade);
void fb_on_report(const struct fb_report *report);

/* Sends an order; orders are numbered from 1. `post_only`: it is refused rather than trade at once. */
void fb_order(uint16_t instrument, enum fb_side side, uint32_t lots, int64_t price, enum fb_life life,
              bool post_only);
/* Cancels the order of this number. */
void fb_cancel(uint32_t id);

/* The number that `name=` stands before in settings like `lots=2 most=10`: false if what stands there is no number.
 * `value` stays as it was where it is not set. */
bool fb_setting(const struct fb_setup *setup, const char *name, int64_t *value);

#endif

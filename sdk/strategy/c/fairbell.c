/* The canonical ABI around a strategy of fairbell.h. Arguments come in memory that cabi_realloc gave; an answer is
 * the address of a list's address and length, and is taken back by the function that begins with cabi_post. */
#include "fairbell.h"

#define HANDLER "fairbell:strategy/handler@1.0.0#"
#define EXPORT(name) __attribute__((export_name(name)))

/* Room for what one piece of news brings, bytes; more stops the program. */
#define ARENA_BYTES (1u << 20)

/* An action as the ABI lays it out: a tag, and from byte 8 on what it carries. */
struct action {
    uint8_t tag;
    union {
        struct {
            uint16_t instrument;
            uint8_t side;
            uint32_t lots;
            int64_t price;
            uint8_t life;
            uint8_t post_only;
        } order;
        uint32_t cancel;
    } of;
};

struct list {
    const void *at;
    uint32_t len;
};

_Static_assert(sizeof(struct action) == 32 && offsetof(struct action, of) == 8, "layout of an action");
_Static_assert(offsetof(struct action, of.order.price) == 16, "layout of an order");
_Static_assert(offsetof(struct action, of.order.life) == 24, "layout of an order");
_Static_assert(sizeof(struct fb_level) == 16, "layout of a level");
_Static_assert(sizeof(struct fb_own_order) == 32, "layout of an own order");
_Static_assert(offsetof(struct fb_own_order, working) == 24, "layout of an own order");
_Static_assert(sizeof(struct fb_instrument) == 32, "layout of an instrument");
_Static_assert(offsetof(struct fb_instrument, tick) == 16, "layout of an instrument");

static _Alignas(8) uint8_t arena[ARENA_BYTES];
static uint32_t arena_used;
static struct action actions[FB_ACTIONS_MAX];
static struct list answer;
static struct {
    uint8_t is_error;
    struct list why;
} started;

EXPORT("cabi_realloc")
void *cabi_realloc(void *old, uint32_t old_len, uint32_t align, uint32_t len) {
    uint32_t at = (arena_used + align - 1) / align * align;
    if (align > 8 || at > ARENA_BYTES || len > ARENA_BYTES - at) {
        __builtin_trap();
    }
    arena_used = at + len;
    const uint8_t *from = old;
    for (uint32_t byte = 0; byte < old_len && byte < len; byte++) {
        arena[at + byte] = from[byte];
    }
    return arena + at;
}

static struct action *next_action(void) {
    if (answer.len == FB_ACTIONS_MAX) {
        __builtin_trap();
    }
    return &actions[answer.len++];
}

void fb_order(uint16_t instrument, enum fb_side side, uint32_t lots, int64_t price, enum fb_life life,
              bool post_only) {
    struct action *action = next_action();
    action->tag = 0;
    action->of.order.instrument = instrument;
    action->of.order.side = (uint8_t)side;
    action->of.order.lots = lots;
    action->of.order.price = price;
    action->of.order.life = (uint8_t)life;
    action->of.order.post_only = post_only;
}

void fb_cancel(uint32_t id) {
    struct action *action = next_action();
    action->tag = 1;
    action->of.cancel = id;
}

bool fb_setting(const struct fb_setup *setup, const char *name, int64_t *value) {
    const char *at = setup->settings.at, *end = at + setup->settings.len;
    while (at < end) {
        const char *left = name;
        while (at < end && *left && *at == *left) {
            at++;
            left++;
        }
        if (!*left && at < end && *at == '=') {
            bool negative = ++at < end && *at == '-';
            at += negative;
            int64_t number = 0;
            const char *first = at;
            for (; at < end && *at != ' '; at++) {
                if (*at < '0' || *at > '9' || number > (INT64_MAX - 9) / 10) {
                    return false;
                }
                number = number * 10 + (*at - '0');
            }
            if (at == first) {
                return false;
            }
            *value = negative ? -number : number;
            return true;
        }
        while (at < end && *at != ' ') {
            at++;
        }
        while (at < end && *at == ' ') {
            at++;
        }
    }
    return true;
}

EXPORT(HANDLER "start")
const void *start(const struct fb_instrument *instruments, uint32_t instruments_len, uint32_t price_decimals,
                  const char *settings, uint32_t settings_len) {
    struct fb_setup setup = {instruments, instruments_len, (uint8_t)price_decimals, {settings, settings_len}};
    const char *why = fb_start(&setup);
    started.is_error = why != NULL;
    started.why.at = why;
    started.why.len = 0;
    while (why && why[started.why.len]) {
        started.why.len++;
    }
    return &started;
}

static const struct list *answered(void) {
    answer.at = actions;
    return &answer;
}

EXPORT(HANDLER "on-book")
const struct list *on_book(uint64_t time_ns, uint32_t instrument, const struct fb_level *bids, uint32_t bids_len,
                           const struct fb_level *asks, uint32_t asks_len, int64_t held,
                           const struct fb_own_order *orders, uint32_t orders_len) {
    struct fb_book book = {time_ns,  (uint16_t)instrument, bids,   bids_len,  asks,
                           asks_len, held,                 orders, orders_len};
    fb_on_book(&book);
    return answered();
}

EXPORT(HANDLER "on-trade")
const struct list *on_trade(uint64_t time_ns, uint64_t happened_ns, uint32_t instrument, int64_t price,
                            uint64_t lots, uint32_t has_aggressor, uint32_t aggressor) {
    struct fb_trade trade = {time_ns, happened_ns,        (uint16_t)instrument, price,
                             lots,    has_aggressor != 0, (enum fb_side)aggressor};
    fb_on_trade(&trade);
    return answered();
}

EXPORT(HANDLER "on-report")
const struct list *on_report(uint64_t time_ns, uint64_t happened_ns, uint32_t instrument, uint32_t id,
                             uint32_t kind, uint32_t side, int64_t price, uint64_t lots, uint64_t left,
                             uint32_t rested) {
    struct fb_report report = {time_ns, happened_ns,
                               (uint16_t)instrument, id,
                               (enum fb_report_kind)kind, (enum fb_side)side,
                               price, lots,
                               left, rested != 0};
    fb_on_report(&report);
    return answered();
}

/* Everything that came with the news, and the answer, is over. */
static void over(const void *unused) {
    (void)unused;
    arena_used = 0;
    answer.len = 0;
}

EXPORT("cabi_post_" HANDLER "start")
void start_over(const void *at) { over(at); }
EXPORT("cabi_post_" HANDLER "on-book")
void on_book_over(const void *at) { over(at); }
EXPORT("cabi_post_" HANDLER "on-trade")
void on_trade_over(const void *at) { over(at); }
EXPORT("cabi_post_" HANDLER "on-report")
void on_report_over(const void *at) { over(at); }

//! How many requests sessions may send: `[gateway]` has the rates of all, `[[account]]` its own.

use exchange::{Rate, Throttle};

use super::{AccountEntry, Config, Gateway, RiskLimits};

/// What an account's session may send. Cancels: as given, else twice the orders.
pub fn throttle(gateway: &Gateway, account: &AccountEntry) -> Throttle {
    let (orders, cancels_per_s) = match account.orders_per_s {
        0 => (
            Rate { per_s: gateway.orders_per_s, burst: gateway.orders_burst },
            gateway.cancels_per_s,
        ),
        per_s => (Rate { per_s, burst: account.orders_burst }, 0),
    };
    let mut throttle = Throttle::new(orders);
    let given = [account.cancels_per_s, cancels_per_s].into_iter().find(|per_s| *per_s > 0);
    throttle.cancels.per_s = given.unwrap_or(throttle.cancels.per_s);
    throttle
}

impl Config {
    /// Without limits of accounts: for measuring what the exchange itself can do.
    #[must_use]
    pub fn unlimited(mut self) -> Config {
        (self.gateway.orders_per_s, self.gateway.orders_burst) = (0, 0);
        self.limits = RiskLimits::NONE;
        self
    }
}

/// The door has to stay open for cancels at twice the rate of orders.
pub(super) fn relations(config: &Config, both: &mut impl FnMut((&str, String), (&str, String))) {
    let gateway = &config.gateway;
    let why = |cancels: u64, orders: u64| {
        (
            format!("must be 0 or at least twice the orders' rate ({orders}), is {cancels}"),
            format!("must be at most half the cancels' rate ({cancels}), is {orders}"),
        )
    };
    if (1..gateway.orders_per_s.saturating_mul(2)).contains(&gateway.cancels_per_s) {
        let (low, high) = why(gateway.cancels_per_s, gateway.orders_per_s);
        both(("gateway.cancels_per_s", low), ("gateway.orders_per_s", high));
    }
    for (index, account) in config.accounts.0.iter().enumerate() {
        let orders = throttle(gateway, account).orders.per_s;
        if (1..orders.saturating_mul(2)).contains(&account.cancels_per_s) {
            let (low, high) = why(account.cancels_per_s, orders);
            let path = |key: &str| format!("account[{index}].{key}");
            both((&path("cancels_per_s"), low), (&path("orders_per_s"), high));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Loaded;

    fn read(text: &str) -> Result<Config, crate::config::ConfigError> {
        Loaded::text("a.toml", text).and_then(Loaded::finish)
    }

    #[test]
    fn an_accounts_own_rates_win_and_cancels_follow_the_orders() {
        let text = "[flow]\nparticipants = 1\n[gateway]\norders_per_s = 100\norders_burst = 20\n\
                    cancels_per_s = 500\n\
                    [[account]]\nname = \"a\"\nusername = \"A\"\npassword = \"x\"\n\
                    [[account]]\nname = \"b\"\nusername = \"B\"\npassword = \"x\"\n\
                    orders_per_s = 7\n\
                    [[account]]\nname = \"c\"\nusername = \"C\"\npassword = \"x\"\n\
                    cancels_per_s = 900\n";
        let config = read(text).unwrap();
        let of = |at: usize| throttle(&config.gateway, &config.accounts.0[at]);
        let rate = |per_s, burst| Rate { per_s, burst };
        assert_eq!(of(0), Throttle { orders: rate(100, 20), cancels: rate(500, 40) });
        assert_eq!(of(1), Throttle { orders: rate(7, 0), cancels: rate(14, 0) });
        assert_eq!(of(2), Throttle { orders: rate(100, 20), cancels: rate(900, 40) });
        let none = Config::default().unlimited();
        assert_eq!(throttle(&none.gateway, &config.accounts.0[0]), Throttle::UNLIMITED);
        assert_eq!(none.limits.values(), engine::Limits::NONE);
    }

    #[test]
    fn by_default_no_account_can_fill_what_all_share() {
        let config = Config::default();
        let guest = throttle(&config.gateway, &config.accounts.0[8]);
        assert_eq!(guest, Throttle::new(Rate { per_s: 5_000, burst: 1_000 }));
        assert!(config.limits.open_orders <= u64::from(config.engine.open_orders_max) / 10);
        assert!(
            config.limits.messages_per_s >= 3 * config.gateway.orders_per_s,
            "with its cancels"
        );
    }

    #[test]
    fn cancels_get_twice_the_rate_of_orders_at_least() {
        let told = |text: &str| read(text).unwrap_err().to_string();
        let low = "must be 0 or at least twice the orders' rate (100), is 199";
        let text = "[gateway]\norders_per_s = 100\ncancels_per_s = 199";
        assert_eq!(told(text), format!("a.toml:3: gateway.cancels_per_s: {low}"));
        let text = "[flow]\nparticipants = 1\n[gateway]\norders_per_s = 100\n[[account]]\n\
                    name = \"a\"\nusername = \"A\"\npassword = \"x\"\ncancels_per_s = 199";
        assert_eq!(told(text), format!("a.toml:9: account[0].cancels_per_s: {low}"));
        assert!(read("[gateway]\norders_per_s = 100\ncancels_per_s = 200").is_ok());
    }
}

//! epoll with nanosecond timeouts, and how long to spin before sleeping.
//!
//! Sleeping gives the core to others but costs a wake-up: about 5-7 us on an idle core, 60 us after
//! a sleep of milliseconds (measured on a two-core virtual machine). So a loop may look a few
//! times more before it sleeps, and may wake a little before a timer and wait for it awake.

use std::mem::MaybeUninit;
use std::num::NonZeroU64;
use std::os::fd::{AsFd, OwnedFd};

use rustix::event::{Timespec, epoll};
use rustix::io::Errno;
use types::Nanos;

use crate::Clock;

/// Events taken at once.
const EVENTS_MAX: usize = 128;

/// How a loop waits when there is nothing to do.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct WaitStrategy {
    /// How long to look again and again after the last work before sleeping, in nanoseconds;
    /// `u64::MAX` never sleeps (only with a core to itself).
    pub spin_ns: u64,
    /// How long before a timer to be awake, in nanoseconds.
    pub timer_spin_ns: u64,
}

impl Default for WaitStrategy {
    fn default() -> Self {
        WaitStrategy { spin_ns: 20 * Nanos::MICRO, timer_spin_ns: 20 * Nanos::MICRO }
    }
}

/// So long before the end of a wait only the clock is looked at: less than looking at the descriptors
/// takes, which would make the end late, and no longer than their news can wait.
const LAST_NS: u64 = Nanos::MICRO;

/// One descriptor's news.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Ready {
    pub token: u64,
    pub readable: bool,
    pub writable: bool,
    /// The other side sends nothing more, or the socket failed: read until told so.
    pub hangup: bool,
}

impl Ready {
    fn from_event(event: &epoll::Event) -> Ready {
        use epoll::EventFlags as Flags;
        let (flags, data) = (event.flags, event.data);
        let hangup = flags.intersects(Flags::RDHUP | Flags::HUP | Flags::ERR);
        Ready {
            token: data.u64(),
            readable: hangup || flags.contains(Flags::IN),
            writable: flags.intersects(Flags::OUT | Flags::HUP | Flags::ERR),
            hangup,
        }
    }
}

pub(crate) struct Poller {
    epoll: OwnedFd,
    news: Vec<Ready>,
}

impl Poller {
    pub fn new() -> std::io::Result<Poller> {
        let epoll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
        Ok(Poller { epoll, news: Vec::with_capacity(EVENTS_MAX) })
    }

    /// Reports new data once per arrival (edge-triggered); the caller reads until empty.
    pub fn add_input(&self, source: impl AsFd, token: u64) -> std::io::Result<()> {
        self.add(source, token, epoll::EventFlags::IN | epoll::EventFlags::ET)
    }

    /// Reports as long as there is something to accept (level-triggered: an accept that failed is tried
    /// again).
    pub fn add_listener(&self, source: impl AsFd, token: u64) -> std::io::Result<()> {
        self.add(source, token, epoll::EventFlags::IN)
    }

    /// Reports a listener no more.
    pub fn remove_listener(&self, source: impl AsFd) -> std::io::Result<()> {
        Ok(epoll::delete(&self.epoll, source)?)
    }

    /// As `add_input`, and reports when the other side closed and when writing is possible again.
    pub fn add_stream(&self, source: impl AsFd, token: u64) -> std::io::Result<()> {
        use epoll::EventFlags as Flags;
        self.add(source, token, Flags::IN | Flags::OUT | Flags::RDHUP | Flags::ET)
    }

    fn add(&self, source: impl AsFd, token: u64, flags: epoll::EventFlags) -> std::io::Result<()> {
        Ok(epoll::add(&self.epoll, source, epoll::EventData::new_u64(token), flags)?)
    }

    /// Looks once without waiting; returns how many descriptors have news.
    pub fn look(&mut self) -> std::io::Result<usize> {
        self.poll(0)
    }

    /// Waits for news until `until` (which may have passed). Returns how many descriptors have
    /// news, and whether the thread slept. May return early without any.
    pub fn wait(
        &mut self,
        clock: &Clock,
        until: Nanos,
        strategy: &WaitStrategy,
    ) -> std::io::Result<(usize, bool)> {
        let start = clock.now();
        loop {
            let news = self.poll(0)?;
            let now = clock.now();
            if news > 0 || now >= until {
                return Ok((news, false));
            }
            if until - now <= LAST_NS {
                while clock.now() < until {
                    std::hint::spin_loop();
                }
                return Ok((0, false));
            }
            if now >= start.after(strategy.spin_ns) && until - now > strategy.timer_spin_ns {
                let news = self.poll(until - now - strategy.timer_spin_ns)?;
                return Ok((news, true));
            }
            std::hint::spin_loop();
        }
    }

    /// The news of the last `look` or `wait`, in the order in which it came.
    pub fn news(&self) -> &[Ready] {
        &self.news
    }

    fn poll(&mut self, timeout_ns: u64) -> std::io::Result<usize> {
        self.news.clear();
        let mut events = [const { MaybeUninit::<epoll::Event>::uninit() }; EVENTS_MAX];
        let timeout = Timespec {
            tv_sec: (timeout_ns / Nanos::SECOND) as i64,
            tv_nsec: (timeout_ns % Nanos::SECOND) as i64,
        };
        match epoll::wait(&self.epoll, &mut events, Some(&timeout)) {
            Ok((events, _)) => {
                self.news.extend(events.iter().map(Ready::from_event));
                Ok(self.news.len())
            }
            Err(Errno::INTR) => Ok(0),
            Err(error) => Err(error.into()),
        }
    }
}

/// Makes this thread's sleeps end when they should: the default slack is 50 us.
pub fn sharpen_timers() {
    // Refused only by a seccomp filter; timers are then less precise, nothing else.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_shorter_than_a_millisecond() {
        sharpen_timers();
        let clock = Clock::start(0);
        let mut poller = Poller::new().expect("an epoll descriptor");
        let strategy = WaitStrategy { spin_ns: 0, timer_spin_ns: 0 };
        // Noise of a shared machine lengthens single sleeps: the shortest one tells.
        let shortest = (0..50).map(|_| {
            let start = clock.now();
            let (news, slept) = poller.wait(&clock, start.after(100_000), &strategy).expect("wait");
            assert_eq!((news, slept), (0, true));
            clock.now() - start
        });
        let shortest = shortest.min().unwrap_or(0);
        assert!((99_000..900_000).contains(&shortest), "{shortest} ns");
    }
}

//! The door that Prometheus asks: `GET /metrics` over HTTP/1.1.
//!
//! One thread with a runtime of its own. It speaks no TLS and asks for no password, so it belongs on a
//! loopback address or a network of operators. Bounds: 32 connections, a request's head within 5 s and
//! 16 KiB; one page is made at a time.

use std::net::TcpListener;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use axum::Router;
use axum::body::Body;
use axum::http::header::CONTENT_TYPE;
use axum::routing::get;
use hyper_util::rt::{TokioIo, TokioTimer};
use hyper_util::service::TowerToHyperService;
use tokio::sync::Semaphore;
use tower::ServiceExt;

use crate::metric;

/// Connections at a time; one more is closed at once.
pub const CONNECTIONS_MAX: usize = 32;
/// For a request's head, and between two requests of a connection: longer than scrapes are apart.
const HEAD_TIME: Duration = Duration::from_secs(5);
/// Longest head of a request.
const HEAD_MAX: usize = 16 * 1_024;
/// How often a stop is looked for.
const STOP_EVERY: Duration = Duration::from_millis(50);

/// Hands a page made by `page` to whoever asks, until `stop`.
///
/// # Errors
/// The system's, when the runtime can't be made.
pub fn serve(
    listener: TcpListener,
    page: impl FnMut() -> String + Send + 'static,
    stop: &AtomicBool,
) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    listener.set_nonblocking(true)?;
    let page = Arc::new(Mutex::new(page));
    let asked = move || {
        let page = Arc::clone(&page);
        async move {
            // It waits for loops: not in the thread that takes connections.
            let made = tokio::task::spawn_blocking(move || {
                let mut page = page.lock().unwrap_or_else(PoisonError::into_inner);
                page()
            });
            ([(CONTENT_TYPE, metric::CONTENT_TYPE)], made.await.unwrap_or_default())
        }
    };
    let routes = Router::new().route("/metrics", get(asked));
    runtime.block_on(async {
        let listener = tokio::net::TcpListener::from_std(listener)?;
        let places = Arc::new(Semaphore::new(CONNECTIONS_MAX));
        while !stop.load(Ordering::Relaxed) {
            let Ok(accepted) = tokio::time::timeout(STOP_EVERY, listener.accept()).await else {
                continue;
            };
            let Ok((stream, _)) = accepted else {
                // No descriptor is free: soon again.
                tokio::time::sleep(STOP_EVERY).await;
                continue;
            };
            let Ok(place) = Arc::clone(&places).try_acquire_owned() else { continue };
            let routes = routes.clone();
            tokio::spawn(async move {
                let service =
                    routes.map_request(|request: hyper::Request<hyper::body::Incoming>| {
                        request.map(Body::new)
                    });
                let mut http = hyper::server::conn::http1::Builder::new();
                http.timer(TokioTimer::new()).header_read_timeout(HEAD_TIME).max_buf_size(HEAD_MAX);
                let serving =
                    http.serve_connection(TokioIo::new(stream), TowerToHyperService::new(service));
                // Whatever ended it, the client knows.
                let _ = serving.await;
                drop(place);
            });
        }
        Ok(())
    })
}

#[cfg(test)]
mod tests {
    use std::io::{Read, Write};
    use std::net::TcpStream;
    use std::thread;

    use super::*;

    fn ask(at: std::net::SocketAddr, request: &[u8]) -> String {
        let mut stream = TcpStream::connect(at).expect("a connection");
        stream.set_read_timeout(Some(Duration::from_secs(20))).expect("a timeout");
        let mut answer = Vec::new();
        // A server that has heard enough closes the connection in the middle.
        let _ = stream.write_all(request);
        let _ = stream.read_to_end(&mut answer);
        String::from_utf8_lossy(&answer).into_owned()
    }

    #[test]
    fn a_page_for_whoever_asks_and_nothing_for_what_is_no_request() {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let at = listener.local_addr().expect("an address");
        let stop = AtomicBool::new(false);
        thread::scope(|scope| {
            let served = scope.spawn(|| {
                let mut asked = 0;
                let page = move || {
                    asked += 1;
                    format!("asked {asked}\n")
                };
                serve(listener, page, &stop)
            });
            let get = b"GET /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            let answer = ask(at, get);
            assert!(
                answer.starts_with("HTTP/1.1 200") && answer.ends_with("asked 1\n"),
                "{answer}"
            );
            assert!(answer.contains(metric::CONTENT_TYPE), "{answer}");
            assert!(ask(at, get).ends_with("asked 2\n"));
            let other = b"GET /other HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            assert!(ask(at, other).starts_with("HTTP/1.1 404"));
            let post = b"POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n";
            assert!(ask(at, post).starts_with("HTTP/1.1 405"));
            let endless = [b"GET /metrics HTTP/1.1\r\nX: ".as_slice(), &[b'a'; 1 << 20]].concat();
            assert!(!ask(at, &endless).contains("asked"));
            let noise: Vec<u8> = (0..4_096u32).map(|n| (n * 37 % 251) as u8).collect();
            assert!(!ask(at, &noise).contains("asked"));
            stop.store(true, Ordering::Relaxed);
            served.join().expect("no panic").expect("served");
        });
    }
}

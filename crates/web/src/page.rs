//! The trading page: the files of `web/`, in the program, with the headers that keep it to itself.
//!
//! A browser that shows it loads nothing from elsewhere, runs no inline script and no inline style, and
//! shows it in nobody's frame.

use axum::http::{HeaderName, HeaderValue, Uri, header};
use axum::response::{IntoResponse, Response};

/// Files by path, with their types.
const FILES: &[(&str, &str, &str)] = &[
    ("/", HTML, include_str!("../../../web/index.html")),
    ("/style.css", "text/css; charset=utf-8", include_str!("../../../web/style.css")),
    ("/icon.svg", "image/svg+xml", include_str!("../../../web/icon.svg")),
    ("/src/main.js", SCRIPT, include_str!("../../../web/src/main.js")),
    ("/src/door/api.js", SCRIPT, include_str!("../../../web/src/door/api.js")),
    ("/src/door/sign.js", SCRIPT, include_str!("../../../web/src/door/sign.js")),
    ("/src/door/socket.js", SCRIPT, include_str!("../../../web/src/door/socket.js")),
    ("/src/model/account.js", SCRIPT, include_str!("../../../web/src/model/account.js")),
    ("/src/model/book.js", SCRIPT, include_str!("../../../web/src/model/book.js")),
    ("/src/model/crc32.js", SCRIPT, include_str!("../../../web/src/model/crc32.js")),
    ("/src/model/decimal.js", SCRIPT, include_str!("../../../web/src/model/decimal.js")),
    ("/src/model/order.js", SCRIPT, include_str!("../../../web/src/model/order.js")),
    ("/src/model/trades.js", SCRIPT, include_str!("../../../web/src/model/trades.js")),
    ("/src/view/announce.js", SCRIPT, include_str!("../../../web/src/view/announce.js")),
    ("/src/view/blotter.js", SCRIPT, include_str!("../../../web/src/view/blotter.js")),
    ("/src/view/chart.js", SCRIPT, include_str!("../../../web/src/view/chart.js")),
    ("/src/view/dom.js", SCRIPT, include_str!("../../../web/src/view/dom.js")),
    ("/src/view/ladder.js", SCRIPT, include_str!("../../../web/src/view/ladder.js")),
    ("/src/model/venue.js", SCRIPT, include_str!("../../../web/src/model/venue.js")),
    ("/src/view/markets.js", SCRIPT, include_str!("../../../web/src/view/markets.js")),
    ("/src/view/operator.js", SCRIPT, include_str!("../../../web/src/view/operator.js")),
    ("/src/view/session.js", SCRIPT, include_str!("../../../web/src/view/session.js")),
    ("/src/view/shortcuts.js", SCRIPT, include_str!("../../../web/src/view/shortcuts.js")),
    ("/src/view/ticket.js", SCRIPT, include_str!("../../../web/src/view/ticket.js")),
    ("/src/view/venue.js", SCRIPT, include_str!("../../../web/src/view/venue.js")),
];
const HTML: &str = "text/html; charset=utf-8";
const SCRIPT: &str = "text/javascript; charset=utf-8";

/// What the page may do; see the CSP Level 3 recommendation of the W3C.
const POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; \
                      object-src 'none'";

/// A file of the page; `None`: there is none at this path.
pub(crate) fn file(uri: &Uri) -> Option<Response> {
    let (_, kind, text) = FILES.iter().find(|(path, _, _)| *path == uri.path())?;
    let headers: [(HeaderName, &'static str); 5] = [
        (header::CONTENT_TYPE, kind),
        (header::CONTENT_SECURITY_POLICY, POLICY),
        (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
        (header::REFERRER_POLICY, "no-referrer"),
        // A new version of the program is a new page.
        (header::CACHE_CONTROL, "no-cache"),
    ];
    let mut response = (*text).into_response();
    for (name, value) in headers {
        response.headers_mut().insert(name, HeaderValue::from_static(value));
    }
    Some(response)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;
    use std::path::Path;

    use super::*;

    fn all(folder: &Path, found: &mut BTreeSet<String>, root: &Path) {
        for entry in std::fs::read_dir(folder).expect("a folder") {
            let path = entry.expect("an entry").path();
            if path.is_dir() {
                all(&path, found, root);
            } else {
                let relative = path.strip_prefix(root).expect("below it");
                found.insert(format!("/{}", relative.display()));
            }
        }
    }

    #[test]
    fn every_file_that_the_page_loads_is_served() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../web");
        let mut due = BTreeSet::from(["/".to_string(), "/style.css".into(), "/icon.svg".into()]);
        all(&root.join("src"), &mut due, &root);
        let served: BTreeSet<String> = FILES.iter().map(|(path, _, _)| path.to_string()).collect();
        assert_eq!(served, due);
    }

    #[test]
    fn what_is_no_file_of_the_page_is_not_there() {
        let page = |path: &'static str| file(&Uri::from_static(path));
        let index = page("/?a=b").expect("the page");
        assert_eq!(index.headers()[header::CONTENT_SECURITY_POLICY], POLICY);
        for other in
            ["/index", "/src/", "/src/../Cargo.toml", "/test/feed.py", "//", "/SRC/main.js"]
        {
            assert!(page(other).is_none(), "{other}");
        }
    }
}

//! Edges as pods of a StatefulSet, whose number is set through the API server.
//!
//! Pods are SET-1 to SET-N: Kubernetes makes and removes the last ones alone. So a node is started by at
//! least as many replicas as its number, and stopped only from the end. The root's pod needs a service
//! account that may get and patch `statefulsets/scale` of that one set (the chart's `scale.enabled` makes it).

use std::io::{Read, Write};
use std::net::ToSocketAddrs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, Instant};

use net::ClientTls;
use serde_json::{Value, json};

use super::ScaleSettings;
use super::machines::Machines;
use crate::failure::Failure;
use crate::sockets::connect_any;

/// Where a pod finds the token of its service account, the cluster's authority and its namespace.
const ACCOUNT: &str = "/var/run/secrets/kubernetes.io/serviceaccount";
/// The name in the API server's certificate.
const SERVER: &str = "kubernetes.default.svc";
/// How long a call may take.
const CALL_MAX: Duration = Duration::from_secs(10);
/// Longest answer.
const ANSWER_MAX: u64 = 1 << 20;

/// A StatefulSet.
pub struct Kubernetes {
    /// Folder of the service account.
    account: PathBuf,
    /// Host and port of the API server.
    server: (String, u16),
    set: String,
    namespace: String,
}

impl Kubernetes {
    /// The one that `[scale]` names, from within a pod.
    ///
    /// # Errors
    /// This is no pod with a service account.
    pub fn in_cluster(settings: &ScaleSettings) -> Result<Kubernetes, Failure> {
        let host = std::env::var("KUBERNETES_SERVICE_HOST").ok();
        let port = std::env::var("KUBERNETES_SERVICE_PORT").ok();
        let server = host.zip(port.and_then(|port| port.parse().ok()));
        let server = server.ok_or_else(|| {
            let why =
                "this is no pod: KUBERNETES_SERVICE_HOST and KUBERNETES_SERVICE_PORT are not set";
            Failure::Usage(format!("scale.by: \"kubernetes\": {why}"))
        })?;
        Kubernetes::new(settings, server, Path::new(ACCOUNT))
    }

    /// The same with an API server and the folder of a service account.
    ///
    /// # Errors
    /// No namespace is named, and the account has none.
    pub fn new(
        settings: &ScaleSettings,
        server: (String, u16),
        account: &Path,
    ) -> Result<Kubernetes, Failure> {
        let namespace = match &settings.namespace[..] {
            "" => read(&account.join("namespace"))?,
            named => named.to_string(),
        };
        let set = settings.stateful_set.clone();
        Ok(Kubernetes { account: account.to_path_buf(), server, set, namespace })
    }

    /// A call of the set's scale; what the server answers. The token is read anew each time: Kubernetes
    /// changes it every hour.
    fn call(&self, method: &str, body: Option<&Value>) -> Result<Value, Failure> {
        let (host, port) = &self.server;
        let path =
            format!("/apis/apps/v1/namespaces/{}/statefulsets/{}/scale", self.namespace, self.set);
        let failed = |why: String| Failure::Run(format!("{method} {path}: {why}"));
        let io = |error: std::io::Error| failed(error.to_string());
        let authority = std::fs::read(self.account.join("ca.crt")).map_err(io)?;
        let token = read(&self.account.join("token"))?;
        let tls =
            ClientTls::new(&authority, SERVER, None).map_err(|why| failed(why.to_string()))?;
        let ways: Vec<_> = (&host[..], *port).to_socket_addrs().map_err(io)?.collect();
        let until = Instant::now() + CALL_MAX;
        let stream = Arc::new(connect_any(&ways, CALL_MAX).map_err(io)?);
        stream.set_write_timeout(Some(CALL_MAX)).map_err(io)?;
        let mut sealed = tls.connect(Arc::clone(&stream), until).map_err(io)?;
        stream.set_read_timeout(Some(CALL_MAX)).map_err(io)?;
        let body = body.map_or_else(String::new, ToString::to_string);
        // Of version 1.0 the answer ends with the connection, whatever its length.
        let request = format!(
            "{method} {path} HTTP/1.0\r\nHost: {SERVER}\r\nAuthorization: Bearer {token}\r\nAccept: \
             application/json\r\nContent-Type: application/merge-patch+json\r\nContent-Length: {}\r\n\r\n{body}",
            body.len()
        );
        sealed.write_all(request.as_bytes()).and_then(|()| sealed.flush()).map_err(io)?;
        let mut answer = Vec::new();
        let read = sealed.take(ANSWER_MAX).read_to_end(&mut answer);
        // Some end the connection without a word; what came is looked at.
        match take(&answer) {
            Ok(value) => Ok(value),
            Err(why) => {
                let nothing = read.err().filter(|_| answer.is_empty());
                Err(failed(nothing.map_or(why, |error| error.to_string())))
            }
        }
    }

    fn replicas(&self) -> Result<u64, Failure> {
        let scale = self.call("GET", None)?;
        Ok(scale["spec"]["replicas"].as_u64().unwrap_or(0))
    }

    fn set(&self, replicas: u64) -> Result<(), Failure> {
        self.call("PATCH", Some(&json!({ "spec": { "replicas": replicas } }))).map(drop)
    }

    fn number(&self, node: &str) -> Result<u64, Failure> {
        let digits = node.strip_prefix(&self.set[..]).and_then(|rest| rest.strip_prefix('-'));
        let number = digits.and_then(|digits| digits.parse().ok()).filter(|number| *number > 0);
        number.ok_or_else(|| {
            Failure::Usage(format!("{node} is no pod of the StatefulSet {}", self.set))
        })
    }

    fn numbers(&self, nodes: &[String]) -> Result<Vec<u64>, Failure> {
        nodes.iter().map(|node| self.number(node)).collect()
    }
}

impl Machines for Kubernetes {
    fn start(&mut self, nodes: &[String]) -> Result<(), Failure> {
        let last = self.numbers(nodes)?.into_iter().max().unwrap_or(0);
        if last > self.replicas()? { self.set(last) } else { Ok(()) }
    }

    fn stop(&mut self, nodes: &[String]) -> Result<(), Failure> {
        let (numbers, now) = (self.numbers(nodes)?, self.replicas()?);
        let mut left = now;
        while left > 0 && numbers.contains(&left) {
            left -= 1;
        }
        if left < now { self.set(left) } else { Ok(()) }
    }
}

fn read(path: &Path) -> Result<String, Failure> {
    let text = crate::tls::read(&path.to_string_lossy())?;
    Ok(String::from_utf8_lossy(&text).trim().to_string())
}

/// The document of an answer that says it is good; else its status and message.
fn take(answer: &[u8]) -> Result<Value, String> {
    let mut headers = [httparse::EMPTY_HEADER; 64];
    let mut head = httparse::Response::new(&mut headers);
    let at = match head.parse(answer) {
        Ok(httparse::Status::Complete(at)) => at,
        Ok(httparse::Status::Partial) => return Err("the answer ends early".to_string()),
        Err(error) => return Err(format!("no answer of HTTP: {error}")),
    };
    let body = answer.get(at..).unwrap_or(&[]);
    let value = serde_json::from_slice::<Value>(body);
    match head.code {
        Some(200..=299) => value.map_err(|error| format!("the answer is no JSON: {error}")),
        code => {
            let why = value.ok().and_then(|value| value["message"].as_str().map(String::from));
            Err(format!("status {}: {}", code.unwrap_or(0), why.unwrap_or_default()))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::io::BufRead;
    use std::net::TcpListener;
    use std::sync::Mutex;

    use net::{Clients, Identity, ServerTls};
    use types::SplitMix64;

    use super::*;
    use crate::authority::End;

    /// An API server with one set, for so many calls; what it was asked.
    fn server(folder: &Path, calls: usize) -> (u16, std::thread::JoinHandle<Vec<String>>) {
        let authority = crate::authority::Authority::new("kubernetes").expect("an authority");
        let made =
            authority.sign(SERVER, &[SERVER.to_string()], End::Server).expect("a certificate");
        std::fs::write(folder.join("ca.crt"), &authority.pair.certificate).expect("written");
        let own = Identity { chain: made.certificate.as_bytes(), key: made.key.as_bytes() };
        let clients = Clients::Optional(authority.pair.certificate.as_bytes());
        let tls = ServerTls::new(own, clients).expect("TLS");
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("bound").port();
        let replicas = Mutex::new(2u64);
        let thread = std::thread::spawn(move || {
            let one = |_| {
                let (stream, _) = listener.accept().expect("a call");
                let until = Instant::now() + CALL_MAX;
                let mut sealed = tls.accept(Arc::new(stream), until).expect("TLS");
                let mut reader = std::io::BufReader::new(&mut sealed);
                let (mut line, mut first, mut len, mut known) =
                    (String::new(), String::new(), 0, false);
                loop {
                    line.clear();
                    reader.read_line(&mut line).expect("a line");
                    let text = line.trim_end();
                    if first.is_empty() {
                        first = text.to_string();
                    }
                    known |= text == "Authorization: Bearer secret-token";
                    if let Some(count) = text.strip_prefix("Content-Length: ") {
                        len = count.parse().expect("a number");
                    }
                    if text.is_empty() {
                        break;
                    }
                }
                let mut body = vec![0; len];
                reader.read_exact(&mut body).expect("a body");
                let asked = format!("{first} {}", String::from_utf8_lossy(&body));
                let mut replicas = replicas.lock().expect("unpoisoned");
                if let Ok(patch) = serde_json::from_slice::<Value>(&body)
                    && known
                {
                    *replicas = patch["spec"]["replicas"].as_u64().expect("a number");
                }
                let (status, told) = match known {
                    true => ("200 OK", json!({ "spec": { "replicas": *replicas } })),
                    false => ("401 Unauthorized", json!({ "message": "who is that?" })),
                };
                write!(sealed, "HTTP/1.0 {status}\r\nContent-Type: application/json\r\n\r\n{told}")
                    .and_then(|()| sealed.flush())
                    .expect("answered");
                asked
            };
            (0..calls).map(one).collect()
        });
        (port, thread)
    }

    #[test]
    fn pods_are_added_and_removed_from_the_end_and_the_token_is_shown() {
        let folder =
            std::env::temp_dir().join(format!("fairbell-kubernetes-{}", std::process::id()));
        crate::files::folder(&folder).expect("a folder");
        for (name, text) in [("token", "secret-token\n"), ("namespace", "lab")] {
            std::fs::write(folder.join(name), text).expect("written");
        }
        let (port, thread) = server(&folder, 9);
        let settings = ScaleSettings::default();
        let at = ("127.0.0.1".to_string(), port);
        let mut pods = Kubernetes::new(&settings, at, &folder).expect("an account");
        let names = |names: &[&str]| names.iter().map(ToString::to_string).collect::<Vec<_>>();
        pods.start(&names(&["edge-3", "edge-4"])).expect("two more");
        pods.start(&names(&["edge-2"])).expect("it is there");
        // Not the last one: Kubernetes would remove another.
        pods.stop(&names(&["edge-2"])).expect("it stays");
        pods.stop(&names(&["edge-3", "edge-4"])).expect("two less");
        assert_eq!(pods.replicas().expect("told"), 2);
        let why = pods.start(&names(&["proxy-1"])).expect_err("of another set").to_string();
        assert!(why.contains("proxy-1 is no pod"), "{why}");
        // Control: with another token nothing is done, and it is said why.
        std::fs::write(folder.join("token"), "guessed").expect("written");
        let why = pods.start(&names(&["edge-5"])).expect_err("refused").to_string();
        assert!(why.contains("status 401: who is that?"), "{why}");
        std::fs::write(folder.join("token"), "secret-token").expect("written");
        assert_eq!(pods.replicas().expect("told"), 2);
        let asked = thread.join().expect("served");
        let path = "/apis/apps/v1/namespaces/lab/statefulsets/edge/scale HTTP/1.0";
        let patches: Vec<&String> = asked.iter().filter(|of| of.starts_with("PATCH")).collect();
        let of = |replicas| format!("PATCH {path} {{\"spec\":{{\"replicas\":{replicas}}}}}");
        assert_eq!(patches, [&of(4), &of(2)]);
        let _ = std::fs::remove_dir_all(folder);
    }

    #[test]
    fn an_answer_of_any_bytes_is_refused_or_taken() {
        let good = b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n{\"spec\":{\"replicas\":3}}";
        assert_eq!(take(good).expect("good")["spec"]["replicas"], 3);
        let seed = 77;
        let mut random = SplitMix64::new(seed);
        for _ in 0..20_000 {
            let mut bytes = good.to_vec();
            for _ in 0..1 + random.below(4) {
                let at = random.below(bytes.len() as u64) as usize;
                bytes[at] = random.next_u64() as u8;
            }
            bytes.truncate(random.below(bytes.len() as u64 + 1) as usize);
            let _ = take(&bytes);
        }
        assert!(
            take(b"").is_err() && take(b"HTTP/1.1 200 OK\r\n\r\nhello").is_err(),
            "seed {seed}"
        );
    }
}

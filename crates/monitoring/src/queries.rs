//! What files of alerts and dashboards ask Prometheus for.

use serde_json::Value;

/// Alerts of a file of rules with one key on a line: the name of each and its expression.
pub fn alerts(rules: &str) -> Vec<(String, String)> {
    let (mut all, mut name) = (Vec::new(), "");
    for line in rules.lines().map(str::trim) {
        if let Some(alert) = line.strip_prefix("- alert: ") {
            name = alert;
        } else if let Some(expression) = line.strip_prefix("expr: ") {
            all.push((name.to_string(), expression.to_string()));
        }
    }
    all
}

/// The left side of an alert's comparison with its threshold; the whole of an expression without one.
pub fn compared(expression: &str) -> &str {
    let ends = [" > ", " < ", " == "].into_iter().filter_map(|sign| expression.rfind(sign));
    ends.max().and_then(|end| expression.get(..end)).unwrap_or(expression)
}

/// Queries of a Grafana dashboard, for all machines: the title of the panel of each, and the query.
pub fn panels(board: &Value) -> Vec<(String, String)> {
    let list = |of: &Value| of.as_array().cloned().unwrap_or_default();
    let mut all = Vec::new();
    for panel in list(&board["panels"]) {
        let title = panel["title"].as_str().unwrap_or_default();
        for query in list(&panel["targets"]).iter().filter_map(|target| target["expr"].as_str()) {
            all.push((title.to_string(), query.replace("$machine", ".*")));
        }
    }
    all
}

/// A file of rules whose alerts fire when they have stood for so many seconds, whatever it says.
pub fn hasty(rules: &str, seconds: u32) -> String {
    let line = |line: &str| match line.split_once("for: ") {
        Some((indent, _)) if indent.trim().is_empty() => format!("{indent}for: {seconds}s\n"),
        _ => format!("{line}\n"),
    };
    rules.lines().map(line).collect()
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    const RULES: &str = "groups:\n  - name: a\n    rules:\n      - alert: One\n        expr: sum(x) / 2 > 0.5\n        \
                         for: 30s\n      - alert: Two\n        expr: up{job=\"a\"} == 0\n        for: 1m\n";

    #[test]
    fn alerts_are_read_and_hastened() {
        let one = ("One".to_string(), "sum(x) / 2 > 0.5".to_string());
        let two = ("Two".to_string(), "up{job=\"a\"} == 0".to_string());
        assert_eq!(alerts(RULES), [one, two]);
        assert_eq!(hasty(RULES, 1), RULES.replace("30s", "1s").replace("1m", "1s"));
        assert_eq!(alerts(&hasty(RULES, 1)), alerts(RULES));
    }

    #[test]
    fn the_compared_side_is_what_stands_before_the_last_comparison() {
        assert_eq!(compared("sum(x) / 2 > 0.5"), "sum(x) / 2");
        assert_eq!(compared("sum(x > 1) == 0"), "sum(x > 1)");
        assert_eq!(compared("up"), "up");
    }

    #[test]
    fn panels_have_their_queries_for_all_machines() {
        let board = json!({ "panels": [
            { "type": "row", "title": "r" },
            { "title": "p", "targets": [{ "expr": "x{machine=~\"$machine\"}" }, { "expr": "y" }] },
        ]});
        let query = |query: &str| ("p".to_string(), query.to_string());
        assert_eq!(panels(&board), [query("x{machine=~\".*\"}"), query("y")]);
        assert_eq!(panels(&json!({})), []);
    }
}

//! Owns the page for people. Everything on it is escaped.

use std::fmt::Write as _;

use super::table::{self, LOG_GROWS};
use crate::node::Figures;
use crate::node::NodeInfo;

const STYLE: &str = "body{font:15px/1.5 system-ui,sans-serif;max-width:56rem;margin:2rem auto;padding:0 1rem}\
    table{border-collapse:collapse;width:100%}td{padding:.15rem .6rem;border-bottom:1px solid #8883}\
    td:nth-child(2){text-align:right;font-variant-numeric:tabular-nums}.why{color:#b40}small{opacity:.7}";

/// The page.
pub(super) fn render(info: &NodeInfo, figures: &Figures, leader: Option<&str>) -> String {
    let node = escape(info.node.as_str());
    let role = figures.role.role.name();
    let reason = figures.role.reason.as_deref().map(escape).unwrap_or_default();
    let (batch, seq) = figures.durable();
    let leader = leader.map_or_else(|| "none known".to_owned(), escape);
    let mut html = format!(
        "<!doctype html><html lang=en><meta charset=utf-8><meta http-equiv=refresh content=2>\
         <title>{node}: {role}</title><style>{STYLE}</style>\
         <h1>{node} <small>of {cluster}</small>: {role}</h1><p class=why>{reason}</p>\
         <p>Leader: {leader}. Epoch {epoch}. Durable up to entry {seq} (batch {batch}); this node has entry {applied}.</p>\
         <p><small>Log size: {LOG_GROWS}.</small></p><table>",
        cluster = escape(info.cluster.as_str()),
        epoch = figures.epoch(),
        applied = figures.applied(),
    );
    for figure in table::figures(figures) {
        // Writing into a String cannot fail.
        let _ = write!(html, "<tr><td>{}<td>{}<td><small>{}</small>", figure.name, figure.value, escape(figure.help));
    }
    html.push_str("</table><p><a href=/role>role</a> · <a href=/ready>ready</a> · <a href=/health>health</a> · <a href=/metrics>metrics</a></html>\n");
    html
}

fn escape(text: &str) -> String {
    let mut safe = String::with_capacity(text.len());
    for c in text.chars() {
        match c {
            '&' => safe.push_str("&amp;"),
            '<' => safe.push_str("&lt;"),
            '>' => safe.push_str("&gt;"),
            '"' => safe.push_str("&quot;"),
            '\'' => safe.push_str("&#39;"),
            c => safe.push(c),
        }
    }
    safe
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn text_cannot_become_markup() {
        assert_eq!(escape("<a href=\"x\">'&"), "&lt;a href=&quot;x&quot;&gt;&#39;&amp;");
    }
}

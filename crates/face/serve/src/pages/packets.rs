//! Packets of captures: those that come, and a page of the last ones.

use axum::Extension;
use axum::extract::State;
use maud::{Markup, html};

use super::layout::{Answer, sheet};
use crate::api::body::{Ids, Search};
use crate::api::{jobs as api, packets};
use crate::app::App;
use crate::captures::{Packet, Packets};
use crate::guard::Caller;
use crate::url::encoded;

/// Returns the last packets of a capture as a page.
pub(super) async fn show(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
    Search(asked): Search<packets::Asked>,
) -> Answer {
    let job = api::found(&app, &caller, id).await?;
    let found = packets::last(&app, &caller, id, asked).await?;
    let body = html! {
        p.crumb { a href="/jobs" { "Jobs" } " / " a href={ "/jobs/" (id) } { "#" (id) " " (job.name) } }
        h1 { "Packets" }
        @if found.captures.is_empty() {
            p { "No capture is there" @if !job.is_over() { " yet" } ". A scenario asks for some with " code { "probe.capture" } ", such as " code { "[\"server:lan\"]" } "." }
        } @else {
            form.row method="get" { (choice(&found)) button.quiet { "Show" } }
            p.note { (words(&found)) }
            (table(&found.packets))
            p.hint { "Times are those of the run. The file itself, for Wireshark, is with the files of the job once the run is over." }
        }
    };
    Ok(sheet(&caller, &format!("Packets of job #{id}"), &body))
}

fn words(found: &Packets) -> String {
    let last = if found.packets.is_empty() { "no packets" } else { "the last packets" };
    let state = if found.growing { ", which is being written" } else { "" };
    format!("{}: {last} of {}{state}.", found.capture, found.total)
}

fn choice(found: &Packets) -> Markup {
    let is_chosen = |name: &str| name == found.capture || name.ends_with(&format!("/{}", found.capture));
    let chosen = found.captures.iter().position(|name| is_chosen(name));
    html! {
        label { "Capture" select name="capture" {
            @for (n, name) in found.captures.iter().enumerate() { option value=(name) selected[chosen == Some(n)] { (name) } }
        } }
    }
}

fn table(packets: &[Packet]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Packets" { table.packets {
            (head())
            tbody { @for packet in packets { tr {
                td.num { (packet.number) } td.num { (format!("{:.6}", packet.time)) }
                td { (packet.source) } td { (packet.destination) } td { (packet.protocol) }
                td.num { (packet.length) } td { (packet.info) }
            } } }
        } }
    }
}

fn head() -> Markup {
    html! {
        thead { tr {
            th.num scope="col" { "No." } th.num scope="col" { "Time (s)" } th scope="col" { "Source" } th scope="col" { "Destination" }
            th scope="col" { "Protocol" } th.num scope="col" { "Length (B)" } th scope="col" { "Content" }
        } }
    }
}

/// Returns the place of a running job's packets. They come while it is open; without scripts it leads to the page.
pub(super) fn tail(job: i64) -> Markup {
    html! {
        details #packets data-job=(job) {
            summary { "Packets of captures" }
            form.row method="get" action={ "/jobs/" (job) "/packets" } {
                label { "Capture" select #capture name="capture" { option value="" { "the latest" } } }
                button.quiet { "The last packets as a page" }
                button.quiet #pause type="button" hidden { "Pause" }
            }
            p.note #captured role="status" {}
            div.scroll #packet-table hidden tabindex="0" role="region" aria-label="Packets" { table.packets { (head()) tbody {} } }
        }
    }
}

/// Returns the link to the packets of a finished job, if it has captures.
pub(super) fn link(job: i64, capture: Option<&str>) -> Markup {
    html! {
        @if let Some(capture) = capture {
            p { a href={ "/jobs/" (job) "/packets?capture=" (encoded(capture)) } { "Packets of captures" } }
        }
    }
}

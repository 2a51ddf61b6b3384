//! Page of the sites: other machines that run tasks of jobs.

use axum::Extension;
use axum::extract::{Form, State};
use axum::response::Redirect;
use maud::{Markup, html};
use serde::Deserialize;

use super::layout::{Answer, Done, sheet, time};
use crate::api::body::Ids;
use crate::api::sites as api;
use crate::app::App;
use crate::guard::Caller;
use crate::store::sites::Site;

/// Level that invites and revokes sites.
const TRUSTS: u8 = 3;

pub(super) async fn list(State(app): State<App>, Extension(caller): Extension<Caller>) -> Answer {
    let all = api::all(&app).await?;
    let body = html! {
        h1 { "Sites" }
        p { "A site is another machine that runs tasks of a job: an emulation, a gateway, or traffic. It dials in, and permits what its own file lists." }
        @if all.is_empty() { p { "No machine is enrolled." } } @else { (table(&caller, &all)) }
        @if caller.user.level >= TRUSTS {
            h2 { "Invite a site" }
            form.stack method="post" action="/sites/invite" {
                label { "Name" input name="name" required maxlength="40" pattern="[a-z][a-z0-9\\-]*"; }
                p.hint { "Lower-case letters, digits and hyphens. The page after this one shows a code, once; it holds for 15 minutes." }
                button { "Invite" }
            }
        }
    };
    Ok(sheet(&caller, "Sites", &body))
}

fn table(caller: &Caller, all: &[Site]) -> Markup {
    let can_revoke = caller.user.level >= TRUSTS;
    html! {
        div.scroll tabindex="0" role="region" aria-label="Sites" { table {
            thead { tr {
                th scope="col" { "Name" } th scope="col" { "State" } th scope="col" { "Version" } th scope="col" { "Clock" }
                th.num scope="col" { "Processors" } th scope="col" { "Free disk" } th scope="col" { "Permits" } th scope="col" { "Problems" }
                @if can_revoke { th scope="col" { "Revoke" } }
            } }
            tbody { @for site in all { tr {
                td { (site.name) }
                td { @if site.connected { "connected" } @else { "away" @if let Some(seen) = site.seen { " since " (time(seen)) } } }
                td { (site.program) }
                td { (clock(site)) }
                td.num { @if site.processors > 0 { (site.processors) } }
                td { (gigabytes(site.free_bytes)) }
                td { (site.programs.join(", ")) }
                td { @if site.problems.is_empty() { "none" } @else { (site.problems.join("; ")) } }
                @if can_revoke { td {
                    form method="post" action={ "/sites/" (site.id) "/revoke" } {
                        button.quiet aria-label={ "Revoke: " (site.name) } { "Revoke" }
                    }
                } }
            } } }
        } }
    }
}

/// Returns the statements of a site's clock.
fn clock(site: &Site) -> String {
    let of_server = match (site.offset_us, site.error_us) {
        (Some(offset_us), Some(error_us)) => {
            format!("{:+.2} ms to this server, \u{b1} {:.2} ms", offset_us / 1e3, error_us / 1e3)
        }
        _ => "not measured".to_owned(),
    };
    match site.source_error_us {
        Some(error_us) => format!("{of_server}; {} states \u{b1} {:.2} ms", site.source, error_us / 1e3),
        None => of_server,
    }
}

fn gigabytes(bytes: u64) -> String {
    format!("{:.1} GB", bytes as f64 / 1e9)
}

/// Site to be invited.
#[derive(Deserialize)]
pub(super) struct Sent {
    name: String,
}

pub(super) async fn invite(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Form(sent): Form<Sent>,
) -> Answer {
    let made = api::make(&app, &caller, api::NewSite { name: sent.name }).await?;
    let address = app.settings.hosts.last().cloned().unwrap_or_default();
    let body = html! {
        h1 { "Invitation of " (made.name) }
        p { "Give this command at the machine within 15 minutes, with the address by which it reaches this server. The code is shown once, and is used once." }
        pre tabindex="0" { "bentpipe site enrol --controller https://" (address) " " (made.code) }
        p { a href="/sites" { "Back to the sites" } }
    };
    Ok(sheet(&caller, "Invitation", &body))
}

pub(super) async fn revoke(
    State(app): State<App>,
    Extension(caller): Extension<Caller>,
    Ids(id): Ids<i64>,
) -> Done {
    api::end(&app, &caller, id).await?;
    Ok(Redirect::to("/sites"))
}

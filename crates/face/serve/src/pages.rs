//! Pages for people: server-rendered HTML that works without scripts.

mod accounts;
mod assets;
mod entry;
mod field;
mod files;
mod form;
mod history;
mod job;
mod jobs;
mod layout;
mod packets;
mod people;
mod removal;
mod reservations;
mod scenarios;
mod sites;
mod studies;

pub(crate) use layout::{problem, problem_page, refuse};

use axum::extract::DefaultBodyLimit;
use axum::routing::{MethodRouter, get, post};

use crate::app::App;
use crate::guard::Access;

/// Most bytes of a form with a file.
const MAX_FORM: usize = crate::inputs::MAX_FILE as usize + (64 << 10);

/// Most bytes of a form with an archive.
const MAX_ARCHIVE: usize = crate::archive::MAX_PACKED as usize + (64 << 10);

/// Page, or target of a form.
pub(crate) struct Page {
    /// Path.
    pub(crate) path: &'static str,
    /// Access that it needs.
    pub(crate) access: Access,
    /// Handlers.
    pub(crate) route: fn() -> MethodRouter<App>,
}

/// Expands to the rows of [`pages`].
macro_rules! rows {
    ($($path:literal, $access:expr => $route:expr;)*) => {
        vec![$(Page { path: $path, access: $access, route: || $route }),*]
    };
}

/// Returns all pages.
pub(crate) fn pages() -> Vec<Page> {
    let level = Access::Level;
    rows! {
        "/style.css", Access::Entry => get(assets::style);
        "/script.js", Access::Entry => get(assets::script);
        "/login", Access::Entry => get(entry::login_page).post(entry::log_in);
        "/logout", level(0) => post(entry::log_out);
        "/", level(0) => get(scenarios::list);
        "/scenarios", level(1) => post(scenarios::add);
        "/scenarios/{id}/copy", level(1) => post(scenarios::copy);
        "/scenarios/{id}/settings", level(1) => post(scenarios::settings);
        "/scenarios/{id}/archive", level(1) => post(scenarios::archive);
        "/scenarios/{id}/restore", level(1) => post(scenarios::restore);
        "/scenarios/{id}/discard", level(1) => post(history::discard);
        "/scenarios/{id}/system", level(0) => get(scenarios::system);
        "/scenarios/{id}/connections", level(0) => get(scenarios::connections);
        "/scenarios/{id}/test", level(0) => get(scenarios::test);
        "/scenarios/{id}/launch", level(0) => get(scenarios::launch_page);
        "/scenarios/{id}/launch/start", level(1) => post(scenarios::launch);
        "/scenarios/{id}/report", level(0) => get(scenarios::report);
        "/scenarios/{id}/text", level(0) => get(scenarios::text);
        "/scenarios/{id}/text/save", level(1) => post(scenarios::save_text);
        "/scenarios/{id}/history", level(0) => get(history::show);
        "/scenarios/{id}/history/remove", level(1) => post(history::remove_version);
        "/scenarios/{id}/form", level(0) => get(form::show);
        "/scenarios/{id}/form/save", level(1) => post(form::save);
        "/scenarios/{id}/entry/add", level(1) => post(form::add);
        "/scenarios/{id}/entry/remove", level(1) => post(form::remove);
        "/scenarios/{id}/preset/save", level(1) => post(form::save_preset);
        "/scenarios/{id}/preset/load", level(1) => post(form::load_preset);
        "/scenarios/{id}/preset/remove", level(1) => post(form::remove_preset);
        "/jobs", level(0) => get(jobs::list);
        "/jobs/{id}", level(0) => get(job::show);
        "/jobs/import", level(1) => post(jobs::add).layer(DefaultBodyLimit::max(MAX_ARCHIVE));
        "/jobs/remove", level(1) => get(removal::ask).post(removal::remove);
        "/jobs/{id}/repeat", level(1) => post(jobs::repeat);
        "/jobs/{id}/cancel", level(1) => post(jobs::cancel);
        "/jobs/{id}/set", level(1) => post(jobs::set);
        "/jobs/{id}/field", level(0) => get(field::show);
        "/jobs/{id}/packets", level(0) => get(packets::show);
        "/jobs/{id}/remarks", level(1) => post(jobs::annotate);
        "/studies", level(0) => get(studies::list);
        "/studies/launch", level(1) => post(studies::launch);
        "/files", level(0) => get(files::list);
        "/files/add", level(1) => post(files::add).layer(DefaultBodyLimit::max(MAX_FORM));
        "/files/{id}/remove", level(1) => post(files::remove);
        "/reservations", level(0) => get(reservations::list);
        "/reservations/add", level(1) => post(reservations::add);
        "/reservations/{id}/remove", level(1) => post(reservations::remove);
        "/sites", level(0) => get(sites::list);
        "/sites/invite", level(3) => post(sites::invite);
        "/sites/{id}/revoke", level(3) => post(sites::revoke);
        "/jobs/{id}/report", level(0) => get(jobs::report);
        "/jobs/{id}/files/{number}", level(0) => get(crate::api::jobs::artifact);
        "/compare", level(0) => get(jobs::compare);
        "/account", level(0) => get(people::account);
        "/account/password", level(0) => post(people::password);
        "/account/second-factor", level(0) => post(people::offer_factor);
        "/account/second-factor/confirm", level(0) => post(people::confirm_factor);
        "/account/second-factor/end", level(0) => post(people::end_factor);
        "/account/sessions/end", level(0) => post(people::end_session);
        "/account/tokens", level(0) => post(people::add_token);
        "/account/tokens/revoke", level(0) => post(people::revoke_token);
        "/users", level(3) => get(people::users).post(people::add_user);
        "/users/{id}", level(3) => post(people::change_user);
        "/audit", level(3) => get(people::audit);
    }
}

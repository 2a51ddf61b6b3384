//! `bentpipe remote`: a command for each operation of a controller.

use std::fs::{self, File};
use std::io::{self, IsTerminal, Read, Write};
use std::path::Path;
use std::sync::Arc;

use bentpipe_emu::plain;
use bentpipe_serve::RemoteOperation;
use clap::error::Error as ClapError;
use clap::{Arg, ArgMatches, Args, Command, FromArgMatches};
use serde_json::{Map, Value};
use ureq::tls::{Certificate, PemItem, RootCerts, TlsConfig};

use crate::show;

mod examples;

/// Properties whose values are read from files: long texts, and secrets.
const FROM_FILES: [&str; 5] = ["text", "password", "old", "new", "sites"];
/// Largest text that is sent.
const MAX_SENT: u64 = 1 << 20;
/// Largest upload that is sent; the server has a limit of its own.
const MAX_UPLOAD: u64 = 1 << 30;
/// Name of the argument of an upload's file.
const FILE: &str = "upload-file";

/// Arguments of `bentpipe remote`.
#[derive(Debug)]
pub(crate) struct RemoteArguments(ArgMatches);

impl FromArgMatches for RemoteArguments {
    fn from_arg_matches(matches: &ArgMatches) -> Result<RemoteArguments, ClapError> {
        Ok(RemoteArguments(matches.clone()))
    }

    fn update_from_arg_matches(&mut self, matches: &ArgMatches) -> Result<(), ClapError> {
        self.0 = matches.clone();
        Ok(())
    }
}

impl Args for RemoteArguments {
    fn augment_args(command: Command) -> Command {
        let own = [
            Arg::new("server")
                .long("server")
                .value_name("URL")
                .default_value("http://127.0.0.1:8080")
                .help("Address of the controller"),
            Arg::new("ca").long("ca").value_name("FILE").help(
                "Certificates in PEM to trust, such as that of a server with --self-signed [default: this machine's]",
            ),
            Arg::new("header")
                .long("header")
                .value_name("NAME=VALUE")
                .action(clap::ArgAction::Append)
                .help("Send a header, such as If-Match; repeatable"),
            Arg::new("output").long("output").value_name("FILE").help("Write the answer to a file"),
        ];
        let operations = bentpipe_serve::remote_operations();
        command
            .args(own.map(|arg| arg.global(true)))
            .subcommand_required(true)
            .arg_required_else_help(true)
            .subcommands(operations.iter().map(subcommand))
    }

    fn augment_args_for_update(command: Command) -> Command {
        RemoteArguments::augment_args(command)
    }
}

fn subcommand(operation: &'static RemoteOperation) -> Command {
    let places = operation.places.iter().map(|(name, capitals)| {
        Arg::new(&name[..]).required(true).value_name(&capitals[..]).help("Number of the object")
    });
    let query = operation.query.iter().map(|(name, help, required)| {
        Arg::new(&name[..]).long(&name[..]).value_name("VALUE").required(*required).help(&help[..])
    });
    let file = operation.is_upload.then(|| {
        Arg::new(FILE).required(true).value_name("FILE").help("File to be sent, - for standard input")
    });
    let body = operation.body.iter().map(|property| {
        let is_file = FROM_FILES.contains(&&property.name[..]);
        let help = property.description.trim_end_matches('.').to_owned();
        let help = if is_file { format!("File with it, - for standard input: {help}") } else { help };
        let value = if is_file { "FILE" } else { "VALUE" };
        Arg::new(&property.key[..])
            .long(&property.flag[..])
            .value_name(value)
            .required(property.required)
            .help(help)
    });
    Command::new(&operation.command[..])
        .about(&operation.summary[..])
        .after_help(examples::of(&operation.command))
        .args(places)
        .args(file)
        .args(query)
        .args(body)
}

pub(crate) fn run(arguments: &RemoteArguments) -> Result<u8, String> {
    let (command, matches) = arguments.0.subcommand().ok_or("no operation")?;
    let operations = bentpipe_serve::remote_operations();
    let operation =
        operations.iter().find(|operation| operation.command == command).ok_or("unknown operation")?;
    let text = |name: &str| matches.get_one::<String>(name).cloned();
    let mut path = operation.path.clone();
    for (place, _) in &operation.places {
        let number: u64 =
            text(place).unwrap_or_default().parse().map_err(|_| format!("{place}: expected a number"))?;
        path = path.replace(&format!("{{{place}}}"), &number.to_string());
    }
    let query: Vec<String> = operation
        .query
        .iter()
        .filter_map(|(name, ..)| Some(format!("{name}={}", encoded(&text(name)?))))
        .collect();
    let query = if query.is_empty() { String::new() } else { format!("?{}", query.join("&")) };
    let server = text("server").unwrap_or_default();
    let address = format!("{}/api/v1{path}{query}", server.trim_end_matches('/'));
    let body = match operation.is_upload.then(|| text(FILE)).flatten() {
        Some(file) => Some(("application/octet-stream", bytes(&file)?)),
        None => body(operation, &text)?.map(|json| ("application/json", json.into_bytes())),
    };
    send(operation, &address, body, matches)
}

fn body(
    operation: &RemoteOperation,
    text: &dyn Fn(&str) -> Option<String>,
) -> Result<Option<String>, String> {
    if !operation.has_body {
        return Ok(None);
    }
    let mut body = Map::new();
    for property in &operation.body {
        let Some(given) = text(&property.key) else { continue };
        let value = match () {
            () if FROM_FILES.contains(&&property.name[..]) => Value::from(contents(&given)?),
            () if property.is_text => Value::from(given),
            () => serde_json::from_str(&given)
                .map_err(|_| format!("--{}: expected a number, true or false", property.name))?,
        };
        body.insert(property.name.clone(), value);
    }
    Ok(Some(Value::from(body).to_string()))
}

/// Returns the text of a file. The line end of a single line is cut.
fn contents(path: &str) -> Result<String, String> {
    let wrong = |error: io::Error| format!("{path}: {error}");
    let mut text = String::new();
    let read = match path {
        "-" => io::stdin().lock().take(MAX_SENT).read_to_string(&mut text),
        _ => File::open(path).map_err(wrong)?.take(MAX_SENT).read_to_string(&mut text),
    };
    read.map_err(wrong)?;
    let is_line = text.lines().count() == 1;
    Ok(if is_line { text.trim_end_matches(['\r', '\n']).to_owned() } else { text })
}

/// Returns the content of a file.
fn bytes(path: &str) -> Result<Vec<u8>, String> {
    let wrong = |error: io::Error| format!("{path}: {error}");
    let mut bytes = Vec::new();
    let read = match path {
        "-" => io::stdin().lock().take(MAX_UPLOAD).read_to_end(&mut bytes),
        _ => File::open(path).map_err(wrong)?.take(MAX_UPLOAD).read_to_end(&mut bytes),
    };
    read.map_err(wrong)?;
    Ok(bytes)
}

fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.~".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Files in which systems keep the certificates that they trust: Debian's, Fedora's, macOS's.
const TRUSTED: [&str; 3] =
    ["/etc/ssl/certs/ca-certificates.crt", "/etc/pki/tls/certs/ca-bundle.crt", "/etc/ssl/cert.pem"];

/// Returns TLS with the certificates to trust.
fn trust(given: Option<&Path>) -> Result<TlsConfig, String> {
    let path = match given {
        Some(path) => path,
        None => TRUSTED.iter().map(Path::new).find(|path| path.exists()).ok_or_else(|| {
            "this machine has no certificates that it trusts: give those of the server with --ca".to_owned()
        })?,
    };
    let bytes = fs::read(path).map_err(|error| format!("{}: {error}", path.display()))?;
    let found = ureq::tls::parse_pem(&bytes).filter_map(|item| match item {
        Ok(PemItem::Certificate(certificate)) => Some(certificate),
        _ => None,
    });
    let certificates: Vec<Certificate<'static>> = found.collect();
    if certificates.is_empty() {
        return Err(format!("{}: expected certificates in PEM", path.display()));
    }
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    Ok(TlsConfig::builder()
        .root_certs(RootCerts::new_with_certs(&certificates))
        .unversioned_rustls_crypto_provider(provider)
        .build())
}

fn send(
    operation: &RemoteOperation,
    address: &str,
    body: Option<(&str, Vec<u8>)>,
    matches: &ArgMatches,
) -> Result<u8, String> {
    let mut config = ureq::Agent::config_builder().http_status_as_error(false).max_redirects(0);
    if address.starts_with("https:") {
        config = config.tls_config(trust(matches.get_one::<String>("ca").map(Path::new))?);
    }
    let agent: ureq::Agent = config.build().into();
    let mut request =
        ureq::http::Request::builder().method(&operation.method.to_uppercase()[..]).uri(address);
    if let Ok(token) = std::env::var("BENTPIPE_TOKEN") {
        request = request.header("authorization", format!("Bearer {token}"));
    } else {
        request = request.header("sec-fetch-site", "none");
    }
    if let Ok(session) = std::env::var("BENTPIPE_SESSION") {
        request = request.header("cookie", session);
    }
    for header in matches.get_many::<String>("header").into_iter().flatten() {
        let (name, value) =
            header.split_once('=').ok_or_else(|| format!("--header {header}: expected NAME=VALUE"))?;
        request = request.header(name, value);
    }
    let wrong = |error: &dyn std::fmt::Display| format!("{address}: {error}");
    let answer = match body {
        Some((kind, body)) => {
            let request = request.header("content-type", kind).body(body);
            agent.run(request.map_err(|error| wrong(&error))?)
        }
        None => agent.run(request.body(()).map_err(|error| wrong(&error))?),
    };
    let mut answer = answer.map_err(|error| wrong(&error))?;
    if !answer.status().is_success() {
        let text = answer.body_mut().read_to_string().unwrap_or_default();
        return Err(refusal(answer.status().as_u16(), &text));
    }
    if let Some(cookies) = cookies(answer.headers()) {
        show::note(&format!("BENTPIPE_SESSION='{cookies}'"));
    }
    let output = matches.get_one::<String>("output").map(Path::new);
    match print(answer.body_mut().as_reader(), operation.is_json, output) {
        // A reader such as `head` has seen enough.
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(0),
        Err(error) => Err(wrong(&error)),
        Ok(()) => Ok(0),
    }
}

/// Returns the cookies that an answer sets, as a request sends them.
pub(crate) fn cookies(headers: &ureq::http::HeaderMap) -> Option<String> {
    let all = headers.get_all("set-cookie").iter().filter_map(|cookie| cookie.to_str().ok());
    let pairs: Vec<&str> = all.filter_map(|cookie| cookie.split(';').next()).collect();
    (!pairs.is_empty()).then(|| pairs.join("; "))
}

/// Returns a problem of the controller in words.
pub(crate) fn refusal(status: u16, text: &str) -> String {
    let Ok(problem) = serde_json::from_str::<Value>(text) else { return format!("HTTP status {status}") };
    let of = |value: &Value, name: &str| value[name].as_str().unwrap_or_default().to_owned();
    let mut all = format!("{} ({status})", of(&problem, "detail"));
    for finding in problem["problems"].as_array().into_iter().flatten() {
        let place = format!("{}:{}", finding["line"], finding["column"]);
        all.push_str(&format!("\n{place}: {}: {}", of(finding, "key"), of(finding, "message")));
    }
    all
}

fn print(mut answer: impl Read, is_json: bool, output: Option<&Path>) -> io::Result<()> {
    let mut out: Box<dyn Write> = match output {
        Some(path) => Box::new(File::create(path)?),
        None if io::stdout().is_terminal() => Box::new(plain::Terminal::new(io::stdout().lock())),
        None => Box::new(io::stdout().lock()),
    };
    if !is_json {
        io::copy(&mut answer, &mut out)?;
        return out.flush();
    }
    let mut text = String::new();
    answer.read_to_string(&mut text)?;
    if let Ok(value) = serde_json::from_str::<Value>(&text) {
        text = serde_json::to_string_pretty(&value)?;
    }
    if !text.is_empty() {
        writeln!(out, "{text}")?;
    }
    out.flush()
}

//! Runs one named scenario of the crate `azservicebus` and prints its result as one line of JSON.
//!
//! What a scenario returns as its error is printed with the condition of the protocol that it
//! holds, because that is what the tests look at. The scenarios live beside this file, one file
//! for each subject.

mod bus;
mod messages;
mod refusals;
mod sessions;
mod topics;

use std::error::Error;
use std::time::Duration;

use serde::Deserialize;
use serde_json::{json, Value};

use bus::Bus;

/// Far above what any scenario takes, on a machine that is busy with other tests too.
const PATIENCE: Duration = Duration::from_secs(60);

/// What a test gives a scenario; each takes what it needs.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Input {
    connection: String,
    queue: String,
    topic: String,
    subscription: String,
    count: usize,
    size: usize,
    web_socket: bool,
}

/// What a user of the client does; its result goes to the test as JSON.
pub type Outcome = Result<Value, Box<dyn Error>>;

async fn scenario(name: &str, bus: &mut Bus, input: &Input) -> Outcome {
    match name {
        "send" => messages::send(bus, input).await,
        "batch" => messages::batch(bus, input).await,
        "large" => messages::large(bus, input).await,
        "complete" => messages::complete(bus, input).await,
        "receiveAndDelete" => messages::receive_and_delete(bus, input).await,
        "abandon" => messages::abandon(bus, input).await,
        "deadLetter" => messages::dead_letter(bus, input).await,
        "deferral" => messages::deferral(bus, input).await,
        "renewLock" => messages::renew_lock(bus, input).await,
        "lockLost" => messages::lock_lost(bus, input).await,
        "peek" => messages::peek(bus, input).await,
        "schedule" => messages::schedule(bus, input).await,
        "namedSession" => sessions::named(bus, input).await,
        "nextSession" => sessions::next(bus, input).await,
        "sessionState" => sessions::state(bus, input).await,
        "renewSession" => sessions::renew(bus, input).await,
        "heldSession" => sessions::held(bus, input).await,
        "sessionSettlement" => sessions::settlement(bus, input).await,
        "ruleManager" => topics::rule_manager(bus, input).await,
        "filters" => topics::filters(bus, input).await,
        "sendOnly" => refusals::send_only(bus, input).await,
        "addToBatch" => refusals::add_to_batch(bus, input).await,
        "receiveOnly" => refusals::receive_only(bus, input).await,
        _ => panic!("there is no scenario {name:?}"),
    }
}

async fn run(name: &str, input: &Input) -> Outcome {
    let mut bus = Bus::connect(input).await?;
    let result = scenario(name, &mut bus, input).await?;
    bus.close().await?;
    Ok(result)
}

#[tokio::main(flavor = "current_thread")]
async fn main() {
    let mut arguments = std::env::args().skip(1);
    let name = arguments.next().expect("the name of a scenario");
    let input = serde_json::from_str(&arguments.next().expect("its input")).expect("JSON");
    let outcome = match tokio::time::timeout(PATIENCE, run(&name, &input)).await {
        Ok(Ok(result)) => json!({ "result": result }),
        Ok(Err(error)) => failed(error.as_ref()),
        Err(_) => json!({ "error": { "code": "timeout", "text": "the scenario took too long" } }),
    };
    println!("{outcome}");
}

fn failed(error: &dyn Error) -> Value {
    let text = format!("{error:?}");
    json!({ "error": { "code": code(&text), "text": text } })
}

/// What the server gave as the reason, in an error that the client wraps in types of its own: the
/// condition of a link that was refused, the status of a request, or the client's own name for it.
fn code(text: &str) -> &str {
    let within = |before: &str, after: char| {
        let (_, rest) = text.split_once(before)?;
        rest.split_once(after).map(|(found, _)| found)
    };
    within("condition: Custom(Symbol(\"", '"')
        .or_else(|| within("condition: AmqpError(", ')'))
        .or_else(|| within("StatusCode(", ')'))
        .or_else(|| text.split_once('(').map(|(name, _)| name))
        .unwrap_or(text)
}

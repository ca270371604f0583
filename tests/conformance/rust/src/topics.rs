//! Topics, subscriptions, and their rules over AMQP.

use azservicebus::administration::{CorrelationRuleFilter, RuleAction, RuleFilter};
use azservicebus::administration::{RuleProperties, SqlRuleAction, SqlRuleFilter};
use azservicebus::prelude::*;
use fe2o3_amqp_types::messaging::ApplicationProperties;
use fe2o3_amqp_types::primitives::{OrderedMap, Value};
use serde_json::json;

use crate::bus::{bodies, text, Bus};
use crate::{Input, Outcome};

pub async fn rule_manager(bus: &mut Bus, input: &Input) -> Outcome {
    let mut manager = bus.client.create_rule_manager(&input.topic, &input.subscription).await?;
    let sized = (SqlRuleFilter::new("size > 10"), SqlRuleAction::new("SET seen = 1"));
    manager.create_rule("large", sized).await?;
    let mut properties = OrderedMap::new();
    properties.insert("colour".to_string(), Value::String("red".to_string()));
    let red = CorrelationRuleFilter::builder().subject("red").properties(properties).build();
    manager.create_rule("red", red).await?;
    manager.delete_rule(RuleProperties::DEFAULT_RULE_NAME).await?;
    let rules = manager.get_rules().await?;
    let found: serde_json::Map<_, _> = rules.iter().map(|r| (r.name.clone(), shown(r))).collect();
    manager.dispose().await?;
    Ok(found.into())
}

fn shown(rule: &RuleProperties) -> serde_json::Value {
    let mut found = match &rule.filters {
        RuleFilter::Sql(filter) => json!({ "sql": filter.expression }),
        RuleFilter::Correlation(filter) => {
            let text = |value: &Value| match value {
                Value::String(text) => json!(text),
                other => json!(format!("{other:?}")),
            };
            let all = filter.properties.iter().flat_map(|all| all.iter());
            let properties: serde_json::Map<_, _> =
                all.map(|(name, value)| (name.clone(), text(value))).collect();
            json!({ "subject": filter.subject, "properties": properties })
        }
        other => json!({ "other": format!("{other:?}") }),
    };
    if let RuleAction::Sql(action) = &rule.actions {
        found["action"] = json!(action.expression);
    }
    found
}

/// Sends to a topic and receives what the rules of a subscription let through.
pub async fn filters(bus: &mut Bus, input: &Input) -> Outcome {
    for colour in ["red", "blue"] {
        let mut message = text(colour);
        let mut properties = ApplicationProperties::default();
        properties.insert("colour".into(), colour.into());
        *message.application_properties_mut() = Some(properties);
        bus.send(&input.topic, vec![message]).await?;
    }
    let options = ServiceBusReceiverOptions {
        receive_mode: ServiceBusReceiveMode::ReceiveAndDelete,
        ..Default::default()
    };
    let mut receiver = bus
        .client
        .create_receiver_for_subscription(&input.topic, &input.subscription, options)
        .await?;
    let messages = receiver.receive_messages(1).await?;
    let left = receiver.peek_messages(10, None).await?;
    receiver.dispose().await?;
    Ok(json!({ "bodies": bodies(&messages)?, "left": left.len() }))
}

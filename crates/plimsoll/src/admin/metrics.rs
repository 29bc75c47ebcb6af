//! Owns the encoding of the figures for Prometheus.

use std::fmt;
use std::sync::Arc;

use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, text};
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::Registry;

use super::table::{self, Kind};
use crate::node::{Figures, Role, Shared};

/// The figures of this moment.
#[derive(Debug)]
struct Moment(Figures);

/// The figures of this moment, in the OpenMetrics text format.
pub(super) fn encode(node: &Arc<Shared>) -> Result<String, fmt::Error> {
    let labels =
        [("node".into(), node.info.node.to_string().into()), ("cluster".into(), node.info.cluster.to_string().into())];
    let mut registry = Registry::with_prefix_and_labels("plimsoll", labels.into_iter());
    registry.register_collector(Box::new(Moment(node.figures())));
    let mut encoded = String::with_capacity(8 << 10);
    text::encode(&mut encoded, &registry)?;
    Ok(encoded)
}

impl Collector for Moment {
    fn encode(&self, mut encoder: DescriptorEncoder<'_>) -> fmt::Result {
        for figure in table::figures(&self.0) {
            match figure.kind {
                Kind::Counter => one(&mut encoder, figure.name, figure.help, &ConstCounter::new(figure.value))?,
                Kind::Gauge => {
                    // Gauges are signed in the format's library; no figure of ours comes near the end of the numbers.
                    let value = i64::try_from(figure.value).unwrap_or(i64::MAX);
                    one(&mut encoder, figure.name, figure.help, &ConstGauge::new(value))?;
                }
            }
        }
        let mut roles = encoder.encode_descriptor(
            "role",
            "1 for what this node is, 0 for what it is not",
            None,
            prometheus_client::metrics::MetricType::Gauge,
        )?;
        for role in Role::ALL {
            let is = i64::from(self.0.role.role == role);
            let labels = [("role", role.name())];
            ConstGauge::new(is).encode(roles.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

fn one(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

//! Owns the encoding of the figures for Prometheus.

use std::fmt;
use std::sync::Arc;

use ha_kv::ErrorClass;
use oplog_core::{Closed, Phase, Refusal, StageMetrics};
use prometheus_client::collector::Collector;
use prometheus_client::encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet, text};
use prometheus_client::metrics::MetricType;
use prometheus_client::metrics::counter::ConstCounter;
use prometheus_client::metrics::gauge::ConstGauge;
use prometheus_client::registry::{Registry, Unit};

use super::table::{self, Kind};
use crate::node::{Figures, Role, Shared};

/// The figures of this moment.
#[derive(Debug)]
struct Moment(Figures);

/// The figures of this moment, in the OpenMetrics text format.
pub(crate) fn encode(node: &Arc<Shared>) -> Result<String, fmt::Error> {
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
        self.writer(&mut encoder)?;
        let mut roles = encoder.encode_descriptor(
            "role",
            "1 for what this node is, 0 for what it is not",
            None,
            MetricType::Gauge,
        )?;
        for role in Role::ALL {
            let is = i64::from(self.0.role.role == role);
            let labels = [("role", role.name())];
            ConstGauge::new(is).encode(roles.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

impl Moment {
    /// What of the writer has labels: why it takes no entries, what it refused and why, what it does, and how long each stage of a
    /// commit takes. Every label is always there, so that no series begins in the middle of an outage.
    fn writer(&self, encoder: &mut DescriptorEncoder<'_>) -> fmt::Result {
        let term = self.0.term.as_ref();
        let m = term.map(|t| t.writer.clone()).unwrap_or_default();

        let closed = term.and_then(|t| t.status.closed);
        let help = "1 for what keeps the log from taking entries, and whether time, an operator or nobody cures it";
        let mut family = encoder.encode_descriptor("writer_closed", help, None, MetricType::Gauge)?;
        for reason in Closed::ALL {
            let labels = [("reason", reason.name()), ("class", class(reason))];
            let is = i64::from(closed == Some(reason));
            ConstGauge::new(is).encode(family.encode_family(&labels)?)?;
        }

        let help = "Reservations and entries refused in this term";
        let mut family = encoder.encode_descriptor("writer_refused", help, None, MetricType::Counter)?;
        for reason in Refusal::all() {
            let labels = [("reason", reason.name())];
            ConstCounter::new(m.refused.of(reason)).encode(family.encode_family(&labels)?)?;
        }

        let phase = term.map(|_| m.phase);
        let help = "1 for what the log's writer is doing";
        let mut family = encoder.encode_descriptor("writer_phase", help, None, MetricType::Gauge)?;
        for each in Phase::ALL {
            let labels = [("phase", each.name())];
            ConstGauge::new(i64::from(phase == Some(each))).encode(family.encode_family(&labels)?)?;
        }

        let help = "Of each batch: committed until sealed, sealed until durable, durable until called back";
        let mut family =
            encoder.encode_descriptor("writer_stage", help, Some(&Unit::Seconds), MetricType::Histogram)?;
        let stages = [
            ("waiting", &m.waiting),
            ("transaction", &m.writing),
            ("notifying", &m.notifying),
            ("calling_back", &m.calling_back),
        ];
        for (name, stage) in stages {
            let labels = [("stage", name)];
            let mut bounds = StageMetrics::BOUNDS_US.iter().map(|us| seconds(*us)).chain([f64::INFINITY]);
            let buckets: Vec<_> = stage.buckets.iter().map_while(|count| Some((bounds.next()?, *count))).collect();
            family.encode_family(&labels)?.encode_histogram::<NoLabelSet>(
                seconds(stage.total_us),
                stage.count,
                &buckets,
                None,
            )?;
        }
        Ok(())
    }
}

#[expect(clippy::cast_precision_loss, reason = "a sum of microseconds above 2^53 is 285 years")]
fn seconds(us: u64) -> f64 {
    us as f64 / 1e6
}

fn class(closed: Closed) -> &'static str {
    match closed.class() {
        ErrorClass::Transient => "transient",
        ErrorClass::Operator => "operator",
        ErrorClass::Permanent => "permanent",
    }
}

fn one(encoder: &mut DescriptorEncoder<'_>, name: &str, help: &str, metric: &impl EncodeMetric) -> fmt::Result {
    metric.encode(encoder.encode_descriptor(name, help, None, metric.metric_type())?)
}

//! Owns the admin HTTP side: health, readiness, role, metrics, and a page for people. It reads; it changes nothing.

pub(crate) mod metrics;
mod page;
mod table;

use std::future::Future;
use std::sync::Arc;

use anyhow::Context;
use axum::extract::State;
use axum::http::{StatusCode, header};
use axum::response::{Html, IntoResponse, Json};
use axum::routing::get;
use axum::{Router, serve};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tower::limit::GlobalConcurrencyLimitLayer;

use crate::node::{Figures, Role, Shared};

/// Requests worked on at once; more wait.
const MAX_CONCURRENT_REQUESTS: usize = 64;

/// Answers until `end`.
///
/// # Errors
/// The server's, which ends the node.
pub(crate) async fn run(
    listener: TcpListener,
    node: Arc<Shared>,
    end: impl Future<Output = ()> + Send + 'static,
) -> anyhow::Result<()> {
    serve(listener, router(node)).with_graceful_shutdown(end).await.context("the admin HTTP server ended")
}

fn router(node: Arc<Shared>) -> Router {
    Router::new()
        .route("/", get(page))
        .route("/health", get(health))
        .route("/ready", get(ready))
        .route("/role", get(role))
        .route("/metrics", get(metrics))
        .fallback(|| async { (StatusCode::NOT_FOUND, "there are /, /health, /ready, /role and /metrics\n") })
        .layer(GlobalConcurrencyLimitLayer::new(MAX_CONCURRENT_REQUESTS))
        .with_state(node)
}

/// Whether the process is alive. A wrong log is no reason to restart it: that would only loop.
async fn health(State(node): State<Arc<Shared>>) -> Json<Value> {
    let state = node.role();
    Json(json!({ "alive": true, "role": state.role.name(), "reason": state.reason }))
}

/// Whether this node does its part: it leads, or follows a log whose end it has reached.
async fn ready(State(node): State<Arc<Shared>>) -> (StatusCode, Json<Value>) {
    let figures = node.figures();
    let (ready, why) = readiness(&figures);
    let code = if ready { StatusCode::OK } else { StatusCode::SERVICE_UNAVAILABLE };
    (code, Json(json!({ "ready": ready, "role": figures.role.role.name(), "reason": why })))
}

fn readiness(figures: &Figures) -> (bool, Option<String>) {
    let reason = figures.role.reason.clone();
    match figures.role.role {
        Role::Leader => match figures.term.as_ref().map(|t| &t.status) {
            Some(status) if !status.accepting => {
                (false, Some(status.reason.clone().unwrap_or_else(|| "the log takes no entries".to_owned())))
            }
            Some(_) => (true, None),
            None => (false, Some("the term has just ended".to_owned())),
        },
        Role::Standby | Role::Promoting => match &figures.standby {
            Some(s) if s.health.name() == "following" && s.store_answers => (true, reason),
            Some(s) if s.store_answers => (false, Some("the log was not read to its end yet".to_owned())),
            Some(s) => (false, Some(s.last_error.clone().unwrap_or_else(|| "the store did not answer yet".to_owned()))),
            None => (false, reason),
        },
        Role::Starting | Role::Draining | Role::Unhealthy => (false, reason),
    }
}

async fn role(State(node): State<Arc<Shared>>) -> Json<Value> {
    let figures = node.figures();
    let (batch, seq) = figures.durable();
    Json(json!({
        "node": node.info.node.as_str(),
        "cluster": node.info.cluster.as_str(),
        "address": node.info.address,
        "role": figures.role.role.name(),
        "reason": figures.role.reason,
        "epoch": figures.epoch(),
        "leader": node.leader_address().await,
        "durable": { "batch_id": batch, "seq": seq },
        "applied_seq": figures.applied(),
    }))
}

async fn metrics(State(node): State<Arc<Shared>>) -> Result<impl IntoResponse, StatusCode> {
    let text = metrics::encode(&node).map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
    Ok(([(header::CONTENT_TYPE, "application/openmetrics-text; version=1.0.0; charset=utf-8")], text))
}

async fn page(State(node): State<Arc<Shared>>) -> Html<String> {
    let leader = node.leader_address().await;
    Html(page::render(&node.info, &node.figures(), leader.as_deref()))
}

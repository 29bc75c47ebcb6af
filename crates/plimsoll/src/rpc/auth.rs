//! Owns the check of the token that every call must carry, where one is configured.

use std::sync::Arc;

use ha_rpc::v1::{ErrorCode, ErrorDetail};
use tonic::{Request, Status};

use crate::config::Secret;

/// Lets a call through if no token is configured, or if it carries it.
pub(super) fn check(token: Option<Secret>) -> impl Fn(Request<()>) -> Result<Request<()>, Status> + Clone {
    let token = token.map(Arc::new);
    move |request| {
        let Some(token) = &token else { return Ok(request) };
        let carried = request.metadata().get("authorization").map(|v| v.as_bytes().strip_prefix(b"Bearer "));
        let why = match carried {
            Some(Some(offered)) if token.matches(offered) => return Ok(request),
            Some(_) => "the token is not this cluster's; see --token-file",
            None => "the call carries no token; give --token-file PATH",
        };
        Err(ErrorDetail::new(ErrorCode::Unauthenticated, why).into())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_token_gets_in() {
        let open = check(None);
        assert!(open(Request::new(())).is_ok());
        let shut = check(Some(Secret::new("abc")));
        let with = |value: &'static str| {
            let mut request = Request::new(());
            request.metadata_mut().insert("authorization", value.parse().unwrap());
            request
        };
        assert!(shut(with("Bearer abc")).is_ok());
        for refused in [Request::new(()), with("Bearer abd"), with("abc"), with("Bearer "), with("bearer abc")] {
            let status = shut(refused).unwrap_err();
            assert_eq!(ErrorDetail::of(&status).unwrap().code(), ErrorCode::Unauthenticated);
        }
    }
}

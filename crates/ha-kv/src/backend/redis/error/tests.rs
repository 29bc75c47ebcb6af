//! One test a meaning (R7): the texts are those of the servers, word for word.

use super::*;

fn write(text: &str) -> (KvErrorKind, Effect, FollowUp) {
    let failure = Failure::of_text(text, Access::Write, "r:1");
    assert!(failure.error.message.contains("r:1"), "the server is named");
    (failure.error.kind, failure.error.effect, failure.follow_up)
}

macro_rules! meanings {
    ($($name:ident: $text:literal => $kind:ident $effect:ident $follow_up:ident;)*) => {
        /// What the tests below ask about.
        const ASKED: &[&str] = &[$($text),*];

        $(#[test]
        fn $name() {
            let expected = (K::$kind, $effect, $follow_up);
            assert_eq!(write($text), expected);
            let code = $text.split(' ').next().unwrap();
            if code != "ERR" {
                // As redis 6 tells of it from inside a script, and redis 7.
                assert_eq!(write(&format!("ERR Error running script (call to f_0a): @user_script:7: @user_script: 7: -{}", $text)), expected);
                assert_eq!(write(&format!("{} script: 0a, on @user_script:7.", $text)), expected);
                assert_eq!(write(&format!("@user_script: 7: -{}", $text)), expected);
            }
            assert_eq!(Failure::of_text($text, Access::Read, "r").error.effect, NotApplied, "a read applies nothing");
            assert_eq!(Failure::refused($text, "r").error.effect, NotApplied, "a refused first write applied nothing");
        })*
    };
}

meanings! {
    r7_loading: "LOADING Redis is loading the dataset in memory" => Busy NotApplied Stay;
    r7_busy: "BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE." => Busy NotApplied Stay;
    r7_misconf_snapshot: "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist to disk." => ReadOnly NotApplied Stay;
    r7_misconf_full_disk: "MISCONF Errors writing to the AOF file: No space left on device" => NoSpace NotApplied Stay;
    r7_readonly: "READONLY You can't write against a read only replica." => ReadOnly NotApplied Reconnect;
    r7_oom: "OOM command not allowed when used memory > 'maxmemory'." => NoSpace NotApplied Stay;
    r7_noreplicas: "NOREPLICAS Not enough good replicas to write." => ReadOnly NotApplied Stay;
    r7_noauth: "NOAUTH Authentication required." => Auth NotApplied Reconnect;
    r7_wrongpass: "WRONGPASS invalid username-password pair or user is disabled." => Auth NotApplied Reconnect;
    r7_noperm: "NOPERM this user has no permissions to run the 'evalsha' command" => Auth NotApplied Stay;
    r7_no_right_inside_a_script: "ERR The user executing the script can't run this command or subcommand" => Auth NotApplied Stay;
    r7_invalid_password: "ERR invalid password" => Auth NotApplied Reconnect;
    r7_auth_without_password: "ERR AUTH <password> called without any password configured for the default user. Are you sure your configuration is correct?" => Auth NotApplied Reconnect;
    r7_auth_without_password_old: "ERR Client sent AUTH, but no password is set" => Auth NotApplied Reconnect;
    r7_wrongtype: "WRONGTYPE Operation against a key holding the wrong kind of value" => Corrupt NotApplied Stay;
    r7_crossslot: "CROSSSLOT Keys in request don't hash to the same slot" => InvalidArgument NotApplied Stay;
    r7_select_in_cluster: "ERR SELECT is not allowed in cluster mode" => InvalidArgument NotApplied Reconnect;
    r7_database_out_of_range: "ERR DB index is out of range" => InvalidArgument NotApplied Reconnect;
    r7_database_no_number: "ERR invalid DB index" => InvalidArgument NotApplied Reconnect;
    r7_moved: "MOVED 3999 127.0.0.1:6381" => Unavailable NotApplied Reconnect;
    r7_ask: "ASK 3999 127.0.0.1:6381" => Unavailable NotApplied Reconnect;
    r7_clusterdown: "CLUSTERDOWN Hash slot not served" => Unavailable NotApplied Reconnect;
    r7_tryagain: "TRYAGAIN Multiple keys request during rehashing of slot" => Busy NotApplied Stay;
    r7_noscript: "NOSCRIPT No matching script. Please use EVAL." => Busy NotApplied Stay;
    r7_masterdown: "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'." => Unavailable NotApplied Reconnect;
    r7_key_on_another_node: "ERR Script attempted to access a non local key in a cluster node" => Unavailable NotApplied Reconnect;
    r7_too_many_clients: "ERR max number of clients reached" => Busy NotApplied Reconnect;
    r7_unknown_command: "ERR unknown command 'EVALSHA', with args beginning with: " => Unsupported NotApplied Stay;
    r7_unknown_subcommand: "ERR Unknown subcommand or wrong number of arguments for 'SLOTS'. Try CLUSTER HELP." => Unsupported NotApplied Stay;
    r7_no_cluster: "ERR This instance has cluster support disabled" => InvalidArgument NotApplied Reconnect;
}

#[test]
fn every_row_has_a_test() {
    let killed = "ERR Script killed by user with SCRIPT KILL...";
    for row in TABLE {
        let asked = ASKED.iter().chain([&killed]).any(|text| std::ptr::eq(find(text), row));
        assert!(asked, "nothing asks about {:?} {:?}", row.native, row.text);
    }
}

/// `errors.md` is shown with [`RedisKv`](crate::RedisKv); it says what the code does.
#[test]
fn the_table_for_readers_is_the_table() {
    let shown: Vec<_> = include_str!("../errors.md").lines().filter(|line| line.starts_with("| `")).collect();
    let made: Vec<_> = TABLE
        .iter()
        .map(|row| {
            let also = if row.text.is_empty() { String::new() } else { format!(" with \"{}\"", row.text) };
            let (prefix, kind, effect) = (row.native.trim_end(), row.kind, row.effect);
            format!("| `{prefix}`{also} | `{kind:?}` | `{effect:?}` | {:?} |", row.follow_up)
        })
        .collect();
    assert_eq!(shown.join("\n"), made.join("\n"), "errors.md and the table differ");
}

#[test]
fn r7_script_killed_in_the_words_of_6_and_7() {
    for text in [
        "ERR Error running script (call to f_0a): @user_script:1: Script killed by user with SCRIPT KILL... ",
        "ERR Script killed by user with SCRIPT KILL... script: 0a, on @user_script:1.",
    ] {
        assert_eq!(write(text), (K::Busy, NotApplied, Stay), "{text}");
    }
}

#[test]
fn r7_any_other_text_proves_nothing() {
    for text in ["ERR something new", "IOERR disk", "", "ERR", "EXECABORT x", "BUSYGROUP exists"] {
        let failure = Failure::of_text(text, Access::Write, "r");
        assert_eq!((failure.error.kind, failure.error.effect), (K::Unavailable, Unknown), "{text:?}");
    }
}

#[test]
fn no_row_is_hidden_by_an_earlier_one() {
    for (at, row) in TABLE.iter().enumerate() {
        let first = TABLE.iter().position(|r| row.native.starts_with(r.native) && row.text.contains(r.text));
        assert_eq!(first, Some(at), "{:?} {:?}", row.native, row.text);
    }
}

#[test]
fn r7_a_refusal_after_a_write_is_never_not_applied() {
    let failure = Failure::partial("OOM command not allowed when used memory > 'maxmemory'.", "r");
    assert_eq!((failure.error.kind, failure.error.effect), (K::Corrupt, Unknown));
}

#[test]
fn r7_a_timeout_is_unknown_once_sent() {
    let after = Duration::from_secs(2);
    assert_eq!(Failure::timed_out(Access::Write, true, "r", after).error.effect, Unknown);
    assert_eq!(Failure::timed_out(Access::Write, false, "r", after).error.effect, NotApplied);
    assert_eq!(Failure::timed_out(Access::Read, true, "r", after).error.effect, NotApplied);
}

#[test]
fn r7_a_broken_connection_is_unknown() {
    for kind in [io::ErrorKind::BrokenPipe, io::ErrorKind::ConnectionReset, io::ErrorKind::UnexpectedEof] {
        let failure = Failure::of(RedisError::from(io::Error::from(kind)), Access::Write, "r");
        let expected = (K::Unavailable, Unknown, Reconnect);
        assert_eq!((failure.error.kind, failure.error.effect, failure.follow_up), expected, "{kind}");
    }
    let refused = Failure::of(RedisError::from(io::Error::from(io::ErrorKind::InvalidData)), Access::Read, "r");
    assert_eq!(refused.error.kind, K::Auth, "what TLS does not accept");
}

#[test]
fn r4_a_reply_of_another_request_is_unknown_and_ends_the_connection() {
    let failure = Failure::garbled(Access::Write, "r", "the reply of another request");
    assert_eq!((failure.error.kind, failure.error.effect, failure.follow_up), (K::Unavailable, Unknown, Reconnect));
}

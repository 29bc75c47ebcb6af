//! Owns a run of the model: every scenario to its end, then every rule removed in turn until that is found.

use std::collections::VecDeque;

use stateright::{Checker, Model as _};

use crate::model::{Action, HOLDS, Invariant, LogModel, Rule, Rules, Scenario, Situation, World};
use crate::report::{Counterexample, RemovalReport, Report, ScenarioReport};

/// How many searches go on at once, each in a thread of its own.
const AT_ONCE: usize = 2;

/// Runs everything. `progress` is told what was finished.
pub fn everything(mut progress: impl FnMut(&str)) -> Report {
    let mut say = |scenario: &ScenarioReport| {
        progress(&format!("{}: {} distinct states", scenario.scenario, scenario.states));
    };
    let scenarios = side_by_side(Scenario::all(), |s| (search(&s, Rules::ALL), s), |(c, s)| report(&s, &c), &mut say);
    let original = Scenario::original();
    let original = report(&original, &search(&original, Rules::ALL).join());
    say(&original);
    let removals = side_by_side(
        Rule::ALL.to_vec(),
        |rule| (search(&rule.needed_by(), Rules::without(rule)), rule),
        |(checker, rule)| removal(rule, &checker),
        |removal| progress(&format!("without \"{}\": {} states", removal.rule, removal.states)),
    );
    Report::new(scenarios, original, removals)
}

/// Runs `scenario` to its end, or to the nearest state that breaks an invariant.
#[must_use]
pub fn explore(scenario: &Scenario) -> ScenarioReport {
    report(scenario, &search(scenario, Rules::ALL).join())
}

/// Runs the scenario that needs `rule` without it.
#[must_use]
pub fn remove(rule: Rule) -> RemovalReport {
    removal(rule, &search(&rule.needed_by(), Rules::without(rule)).join())
}

/// Starts [`AT_ONCE`] searches, and another whenever one is finished. The results are in the order of `items`.
fn side_by_side<T, C: Checker<LogModel>, I, R>(
    items: Vec<T>,
    start: impl Fn(T) -> (C, I),
    finish: impl Fn((C, I)) -> R,
    mut say: impl FnMut(&R),
) -> Vec<R> {
    let (mut running, mut done) = (VecDeque::new(), Vec::new());
    let mut waiting = items.into_iter();
    loop {
        while running.len() < AT_ONCE
            && let Some(item) = waiting.next()
        {
            running.push_back(start(item));
        }
        let Some((checker, item)) = running.pop_front() else { return done };
        done.push(finish((checker.join(), item)));
        done.last().into_iter().for_each(&mut say);
    }
}

/// In one thread: the first counterexample is the nearest one, and the same each time.
fn search(scenario: &Scenario, rules: Rules) -> impl Checker<LogModel> + use<> {
    let model = LogModel::new(scenario.clone(), rules);
    model.checker().finish_when(stateright::HasDiscoveries::AnyFailures).spawn_bfs()
}

fn report(scenario: &Scenario, checker: &impl Checker<LogModel>) -> ScenarioReport {
    let counts = Situation::ALL.iter().map(|situation| (situation.text(), checker.model().count(*situation)));
    let missed = scenario.must_reach.iter().filter(|situation| checker.model().count(**situation) == 0);
    ScenarioReport {
        scenario: scenario.name,
        about: scenario.about,
        states: checker.unique_state_count(),
        steps: checker.state_count(),
        depth: checker.max_depth(),
        reached: counts.filter(|(_, count)| *count > 0).collect(),
        missed: missed.map(|situation| situation.text()).collect(),
        counterexample: counterexample(checker),
    }
}

fn removal(rule: Rule, checker: &impl Checker<LogModel>) -> RemovalReport {
    RemovalReport {
        rule: rule.text(),
        scenario: rule.needed_by().name,
        states: checker.unique_state_count(),
        found: counterexample(checker),
    }
}

fn counterexample(checker: &impl Checker<LogModel>) -> Option<Counterexample> {
    let model = checker.model();
    model.close();
    let path: Vec<(World, Option<Action>)> = checker.discovery(HOLDS)?.into_vec();
    let broken = model.broken(&path.last()?.0).into_iter().map(Invariant::name).collect();
    let steps = path.iter().filter_map(|(_, action)| action.as_ref()).map(|action| format!("{action:?}")).collect();
    Some(Counterexample { broken, steps })
}

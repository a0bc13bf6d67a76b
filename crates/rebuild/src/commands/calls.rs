//! What the crate `run` does for each command, handed on to be told.

use std::sync::Arc;

use run::CallError;
use run::api::{
    CheckOptions, DiscoverOptions, DownOptions, MendOptions, MigrateOptions, PreflightOptions,
    RenderOptions, Site, SuspectsOptions, UpOptions,
};
use run::stop::StopRequests;
use run::ui::Ui;

use super::{Context, Told, telling};
use crate::failure::Failure;
use crate::ui::Questions;

pub(super) fn up(
    context: &Context,
    site: &Site,
    options: &UpOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    ended(context, run::up(&context.machine, site, options, stop, ui))
}

pub(super) fn down(
    context: &Context,
    site: &Site,
    options: &DownOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    if options.dry_run {
        let dry = run::down_dry_run(&context.machine, site, stop, ui);
        return told(context, dry, |dry| telling::dry_run(&dry, context.out));
    }
    ended(
        context,
        run::down(&context.machine, site, options, stop, ui),
    )
}

pub(super) fn repair(
    context: &Context,
    site: &Site,
    options: &MendOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    ended(
        context,
        run::repair(&context.machine, site, options, stop, ui),
    )
}

pub(super) fn accept(
    context: &Context,
    site: &Site,
    options: &MendOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    ended(
        context,
        run::accept(&context.machine, site, options, stop, ui),
    )
}

pub(super) fn preflight(
    context: &Context,
    site: &Site,
    options: &PreflightOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let looked = run::preflight(&context.machine, site, options, stop, ui);
    let failure = looked
        .error
        .map(|error| Failure::of_call(error, context.err));
    telling::preflight(looked.report.as_ref(), failure, looked.exit, context.out)
}

pub(super) fn plan(
    context: &Context,
    site: &Site,
    detailed: bool,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let report = run::plan(&context.machine, site, stop, ui);
    told(context, report, |report| {
        telling::planned(&report, detailed, context.out)
    })
}

pub(super) fn check(
    context: &Context,
    options: &CheckOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let platform = context.platform.clone();
    let report = run::check(&context.machine, platform, options, stop, ui);
    told(context, report, |report| {
        telling::checked(&report, context.out)
    })
}

pub(super) fn status(context: &Context, site: &Site) -> Told {
    let status = run::status(&context.machine, site);
    told(context, status, |status| {
        telling::status(&status, context.out)
    })
}

pub(super) fn explain(context: &Context, site: &Site) -> Told {
    let explained = run::explain(&context.machine, site);
    told(context, explained, |explained| {
        telling::explained(&explained, context.out)
    })
}

pub(super) fn runs_list(context: &Context, site: &Site) -> Told {
    let listed = run::runs_list(&context.machine, site);
    told(context, listed, |listed| {
        telling::runs(&site.target, &listed, context.out)
    })
}

pub(super) fn runs_show(context: &Context, site: &Site, id: &str) -> Told {
    let record = run::runs_show(&context.machine, site, id);
    told(context, record, |record| {
        telling::run_shown(&record, context.out)
    })
}

pub(super) fn suspects(
    context: &Context,
    site: &Site,
    options: &SuspectsOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let report = run::suspects(&context.machine, site, options, stop, ui);
    told(context, report, |report| {
        telling::suspects(&report, context.out)
    })
}

pub(super) fn migrate(
    context: &Context,
    site: &Site,
    options: &MigrateOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let migrated = run::migrate(&context.machine, site, options, stop, ui);
    told(context, migrated, |migrated| {
        telling::migrated(&migrated, context.out)
    })
}

pub(super) fn rekey(
    context: &Context,
    site: &Site,
    options: &run::RekeyOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
) -> Told {
    let rekeyed = run::rekey(&context.machine, site, options, stop, ui);
    told(context, rekeyed, |rekeyed| telling::rekeyed(&rekeyed))
}

pub(super) fn store_move(context: &Context, site: &Site, to: &str, ui: &Arc<dyn Ui>) -> Told {
    let moved = run::store_move(&context.machine, site, to, ui);
    told(context, moved, |moved| telling::store_moved(&moved))
}

pub(super) fn unlock(context: &Context, site: &Site, to: Option<&str>, ui: &Arc<dyn Ui>) -> Told {
    let unlocked = run::unlock(&context.machine, site, to, ui);
    told(context, unlocked, |unlocked| telling::unlocked(&unlocked))
}

pub(super) fn render(context: &Context, options: &RenderOptions) -> Told {
    let report = run::render(&context.machine, context.platform.clone(), options);
    told(context, report, |report| {
        telling::rendered(&report, context.out)
    })
}

pub(super) fn discover(
    context: &Context,
    options: &DiscoverOptions,
    stop: &Arc<StopRequests>,
    ui: &Arc<dyn Ui>,
    questions: &Questions,
) -> Told {
    let confirm = |machine: &run::DiscoveredMachine| questions.add_machine(machine);
    let report = run::discover(&context.machine, options, stop, ui, &confirm);
    told(context, report, |report| {
        telling::discovered(&report, context.out)
    })
}

fn ended(context: &Context, ended: run::Ended) -> Told {
    let failure = ended
        .error
        .map(|error| Failure::of_call(error, context.err));
    telling::run(ended.record.as_ref(), failure, ended.exit, context.out)
}

fn told<T>(context: &Context, result: Result<T, CallError>, tell: impl FnOnce(T) -> Told) -> Told {
    match result {
        Ok(result) => tell(result),
        Err(error) => Told::failed(Failure::of_call(error, context.err)),
    }
}

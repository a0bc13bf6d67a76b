//! What the crate `run` does for each command, put into words.

use std::sync::Arc;

use phase_engine::ExitCode;
use run::api::{CheckOptions, DownOptions, Site, UpOptions};
use run::stop::StopRequests;
use run::ui::Ui;

use super::{Context, Told};
use crate::failure::Failure;

pub(super) fn up(_: &Context, _: &Site, _: &UpOptions, _: &Arc<StopRequests>, _: &dyn Ui) -> Told {
    missing("up")
}

pub(super) fn down(
    _: &Context,
    _: &Site,
    _: &DownOptions,
    _: &Arc<StopRequests>,
    _: &dyn Ui,
) -> Told {
    missing("down")
}

pub(super) fn preflight(
    _: &Context,
    _: &Site,
    _: usize,
    _: Option<&str>,
    _: &Arc<StopRequests>,
    _: &dyn Ui,
) -> Told {
    missing("preflight")
}

pub(super) fn check(_: &Context, _: &CheckOptions, _: &Arc<StopRequests>, _: &dyn Ui) -> Told {
    missing("check")
}

pub(super) fn status(_: &Context, _: &Site) -> Told {
    missing("status")
}

pub(super) fn runs_list(_: &Context, _: &Site) -> Told {
    missing("runs list")
}

pub(super) fn runs_show(_: &Context, _: &Site, _: &str) -> Told {
    missing("runs show")
}

pub(super) fn unlock(_: &Context, _: &Site, _: &Arc<StopRequests>, _: &dyn Ui) -> Told {
    missing("unlock")
}

fn missing(command: &str) -> Told {
    Told::failed(Failure::new(
        ExitCode::Unusable,
        format!("`{command}` is not there yet"),
    ))
}

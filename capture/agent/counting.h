// Counts launches for `asmevo capture list`: how often, in which geometries, and for how long by
// events around some of them.
#pragma once

#include "launch.h"

// Counts a launch. If it is one to be timed, an event is recorded before it, `launch->sample` is
// set, and `counting_end` must follow.
void counting_begin(struct capture_control* control, struct launch* launch, int index);
void counting_end(const struct launch* launch);

// Adds up the launches whose events have passed; called from time to time by the session's thread.
void counting_collect(struct capture_control* control);

// Reads the text of NCCL's RAS, which NCCL 2.24 to 2.28.6 sends in place of JSON. It says nothing of communicators
// whose members have launched the same. Of others, it lists the members that differ from most others.
#pragma once

#include <string_view>

#include "launcher/run/watchdog/evidence/ras_status.h"

namespace ddp::launcher {

bool is_ras_text(std::string_view status);

// Returns whether this line begins a list of what members have launched of a function.
bool counts_of_ras_begin(std::string_view line);

// Returns the communicators whose members have launched different numbers of a collective. The size of one is 0 if the
// text does not say what each member has launched: two halves differ, or a process is unknown.
RasStatus read_ras_text(std::string_view text);

}  // namespace ddp::launcher

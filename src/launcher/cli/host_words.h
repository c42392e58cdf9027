// The options of a command line as the launchers on other hosts get them. Pure.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "launcher/cli/setting.h"

namespace ddp::launcher {

// "--name=value" for what counts among these settings, in their order, wherever they came from; without those that only
// the launcher that starts the others needs: which hosts, how they are reached, files that are read here.
std::vector<std::string> words_for_hosts(std::span<const Setting> settings);

}  // namespace ddp::launcher

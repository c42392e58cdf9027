// This header declares the command line of train_charlm.
#pragma once

#include <cstdint>
#include <string>

namespace charlm {

struct Options {
  std::string text = "/usr/share/common-licenses/GPL-3";
  std::int64_t steps = 0;  // if 0, `epochs` times through the text
  std::int64_t epochs = 8;
  std::int64_t batch = 128;  // predictions per step, over all ranks
  std::int64_t seed = 0;
  double learning_rate = 2e-3;
  std::string checkpoint = "charlm.safetensors";
  std::int64_t save_every = 0;  // steps; if 0, after each epoch
  bool resume = false;
  std::string hook = "mean";     // how gradients are sent; see --help
  std::int64_t local_steps = 1;  // steps between averages of the parameters; if 1, gradients are averaged
  bool help = false;
};

// Throws std::runtime_error, whose text says what to do, for an unknown option or a number out of range.
Options parse_options(int argc, char** argv);

std::string help_text();

}  // namespace charlm

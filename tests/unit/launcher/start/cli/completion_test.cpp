#include "launcher/start/cli/completion.h"

#include <algorithm>
#include <cstdio>
#include <fstream>
#include <memory>

#include "base/text.h"
#include "launcher/start/cli/job_options.h"
#include "launcher/start/cli/subcommand_options.h"
#include "launcher/start/cli/subcommands.h"
#include "support/catch.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;

namespace {

// Returns bash's completions of the last of `words`. bash splits words itself: --color=a is three words.
std::string offered(const std::string& words) {
  const TemporaryDirectory directory;
  const std::string path = directory.path() + "/completion";
  std::ofstream(path) << completion_script("bash").value()
                      << "cd \"$(dirname \"$0\")\" && touch job.toml && COMP_WORDS=(ddplaunch " << words
                      << ")\nCOMP_CWORD=$((${#COMP_WORDS[@]} - 1))\n_ddplaunch\nprintf '%s ' \"${COMPREPLY[@]}\"\n";
  const std::unique_ptr<FILE, int (*)(FILE*)> pipe(::popen(("bash " + path + " 2>&1").c_str(), "r"), ::pclose);
  REQUIRE(pipe);
  std::string output;
  for (int c = std::fgetc(pipe.get()); c != EOF; c = std::fgetc(pipe.get())) output += static_cast<char>(c);
  return output;
}

}  // namespace

TEST_CASE("bash completes names of options in both spellings") {
  CHECK(offered("--nproc") == "--nproc-per-node ");
  CHECK(offered("--nproc_") == "--nproc_per_node ");
  CHECK(offered("-q --dry") == "--dry-run ");
  CHECK(offered("--grace 3 --no-t") == "--no-tag ");
  CHECK(offered("launch --use") == "--use-env ");
}

TEST_CASE("bash completes choices, attached or not") {
  CHECK(offered("--color ''") == "auto always never ");
  CHECK(offered("--color al") == "always ");
  CHECK(offered("--color =") == "auto always never ");
  CHECK(offered("--color = ne") == "never ");
  CHECK(offered("--rdzv_backend c") == "c10d ");
  CHECK(offered("--color never --nproc-per-node g") == "gpu ");
}

TEST_CASE("bash completes the options of ddplaunch store after that word, and only there") {
  CHECK(offered("store --in") == "--inspect ");
  CHECK(offered("store --port-file j") == "job.toml ");
  CHECK(offered("store --store_l") == "--store_limit ");
  CHECK(offered("store --auth-token-file j") == "job.toml ");
  CHECK(offered("store --max") == " ");
  CHECK(offered("--ins") == " ");
  CHECK(offered("sto").find("store ") != std::string::npos);
  CHECK(offered("-q store --in") == " ");
  CHECK(offered("report --run-i") == "--run-id ");
  CHECK(offered("report j") == "job.toml ");
  CHECK(offered("report job.toml --out") == "--output ");
  CHECK(offered("report --max") == " ");
}

TEST_CASE("bash completes files, and leaves words after the program to the shell") {
  CHECK(offered("--config j") == "job.toml ");
  CHECK(offered("--grace ''") == " ");
  CHECK(offered("./train --co") == " ");
  CHECK(offered("--color never ./train --co") == " ");
}

TEST_CASE("the scripts for all shells name every option and every choice") {
  for (const char* shell : {"bash", "zsh", "fish"}) {
    const std::string script = completion_script(shell).value();
    const std::string prefix = std::string(shell) == "fish" ? "-l " : "--";
    OptionList all = job_options();
    for (const OptionInfo& option : options_of<StoreOptions>()) all.push_back(option);
    for (const OptionInfo& option : options_of<ReportOptions>()) all.push_back(option);
    for (const OptionInfo& option : options_of<TopOptions>()) all.push_back(option);
    for (const OptionInfo& option : all) {
      for (const std::string& name : option.names) {
        CAPTURE(shell, name);
        CHECK(script.find(prefix + name) != std::string::npos);
        CHECK(script.find(prefix + with_underscores(name)) != std::string::npos);
      }
      if (!option.choices.empty()) CHECK(script.find(ddp::base::join(option.choices, " ")) != std::string::npos);
    }
  }
  CHECK_FALSE(completion_script("tcsh").has_value());
}

TEST_CASE("every subcommand is completed, and bench has its operations and both kinds of options") {
  CHECK(offered("benc").find("bench ") != std::string::npos);
  CHECK(offered("bench all_r") == "all_reduce ");
  CHECK(offered("bench all_reduce --own") == "--own-buffers ");
  CHECK(offered("bench --nnod") == "--nnodes ");
  CHECK(offered("--scheduler sl") == "slurm ");
  for (const char* shell : {"bash", "zsh", "fish"}) {
    for (const Subcommand& each : subcommands()) {
      INFO(shell << ": " << each.name);
      CHECK(completion_script(shell).value().find(each.name) != std::string::npos);
    }
  }
}

TEST_CASE("bash completes the options of ddplaunch ls and the topics of ddplaunch help") {
  CHECK(offered("ls --j") == "--json ");
  CHECK(offered("ls --onc") == " ");
  CHECK(offered("l").find("ls ") != std::string::npos);
  CHECK(offered("help max-r") == "max-restarts ");
  CHECK(offered("help rep") == "report report ");
  CHECK(offered("help --max") == " ");
  CHECK(offered("top ls --on") == "--once ");
}

TEST_CASE("bash completes the options of ddplaunch top before and after the job") {
  CHECK(offered("top --on") == "--once ");
  CHECK(offered("top night-run --on") == "--once ");
  CHECK(offered("top --sort mem") == "memory ");
  CHECK(offered("--onc") == " ");
}

TEST_CASE("quotes are balanced in each line of the zsh and fish scripts") {
  for (const char* shell : {"zsh", "fish"}) {
    const std::string script = completion_script(shell).value();
    std::string line;
    for (const char c : script) {
      if (c != '\n') {
        line += c;
        continue;
      }
      CAPTURE(line);
      if (!line.starts_with('#')) CHECK(std::count(line.begin(), line.end(), '\'') % 2 == 0);
      line.clear();
    }
  }
}

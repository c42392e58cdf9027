#include "launcher/start/cli/parse.h"

#include <fstream>

#include "support/command_line.h"
#include "support/temporary_directory.h"

using namespace ddp::launcher;
using namespace std::chrono_literals;

namespace {

class ConfigFile {
 public:
  ConfigFile(const std::string& name, const std::string& text) : path_(directory_.path() + "/" + name) {
    std::ofstream(path_) << text;
  }
  const std::string& path() const { return path_; }

 private:
  TemporaryDirectory directory_;
  std::string path_;
};

}  // namespace

TEST_CASE("an unknown option is rejected with the nearest match") {
  CHECK(mistake({"--nproc-per-nod=4", "./train"}) ==
        "unknown option --nproc-per-nod. Did you mean --nproc-per-node? See ddplaunch --help");
  CHECK(mistake({"--nproc_per_nod", "4", "./train"}) ==
        "unknown option --nproc_per_nod. Did you mean --nproc_per_node? See ddplaunch --help");
  CHECK(mistake({"--quite", "./train"}) == "unknown option --quite. Did you mean --quiet? See ddplaunch --help");
  CHECK(mistake({"--zzzzzzzz", "./train"}) == "unknown option --zzzzzzzz. See ddplaunch --help");
  CHECK(mistake({"--nproc-per-node", "2", "--bakend=gloo", "./train"}).find("--backend?") != std::string::npos);
}

TEST_CASE("a missing program is reported with the usage line") {
  CHECK(mistake({}).starts_with("no program given. Usage: ddplaunch [options] program"));
  CHECK(mistake({"--nproc-per-node=2"}).starts_with("no program given."));
  CHECK(mistake({"--"}).starts_with("no program given."));
  CHECK(std::holds_alternative<UsageError>(parse_command_line(0, nullptr, {})));
}

TEST_CASE("everything after the program belongs to the program") {
  CHECK(parsed_as({"--nproc-per-node=2", "p", "--nproc-per-node=9", "-q", "--help"}).command ==
        Words{"p", "--nproc-per-node=9", "-q", "--help"});
  CHECK(parsed_as({"p", "--", "-x"}).command == Words{"p", "--", "-x"});
  CHECK(parsed_as({"--", "p", "--version"}).command == Words{"p", "--version"});
  CHECK(parsed_as({"p", "[1,2]", "[]", "{}", "%%", "'q'", "\"", "--", "-", "", "a b", "--x=y=z"}).command ==
        Words{"p", "[1,2]", "[]", "{}", "%%", "'q'", "\"", "--", "-", "", "a b", "--x=y=z"});
  CHECK(parsed_as({"--grace", "7", "--", "-weird", "-q"}).command == Words{"-weird", "-q"});
}

TEST_CASE("values with any characters reach the Options unchanged") {
  for (const char* value : {"[a,b]", "[]", "{}", "%%", "'q'", "a b", "x=y", "--quiet", "++", "/a"}) {
    CAPTURE(value);
    CHECK(parsed_as({std::string("--gpus=") + value, "p"}).gpus == value);
  }
  CHECK(parsed_as({"--tag=[${rank}]", "p"}).tag == "[${rank}]");
  CHECK(parsed_as({"--tag=", "p"}).tag == "");
  CHECK(parsed_as({"--tag=x", "--no-tag", "p"}).tag == "");
  CHECK(parsed_as({"--no-tag", "--tag", "x", "p"}).tag == "x");
}

TEST_CASE("the last setting of a repeated option wins in any spelling") {
  CHECK(parsed_as({"--rdzv-id=a", "--rdzv_id", "b", "p"}).run_id == "b");
  CHECK(parsed_as({"--collapse", "--no-collapse", "p"}).collapse == false);
  CHECK(parsed_as({"--no_collapse", "--collapse", "p"}).collapse == true);
  CHECK(parsed_as({"--grace=1", "--shutdown-timeout=2", "p"}).grace == 2s);
  CHECK(parsed_as({"-t", "0", "--tee=3", "p"}).tee.all == 3);
}

TEST_CASE("limits of the store are collected from all sources") {
  const ConfigFile file("job.toml", "store-limit = [\"keys=1\", \"connections=2\"]\n");
  const Options all = parsed_as({"--config", file.path(), "--store-limit=keys=3", "--store_limit", "key-bytes=64", "p"},
                                {"PET_STORE_LIMIT=connections=4,table-bytes=1MiB"});
  CHECK(all.store_limits.keys == 3);
  CHECK(all.store_limits.connections == 4);
  CHECK(all.store_limits.table_bytes == std::size_t{1} << 20);
  CHECK(all.store_limits.key_bytes == 64);
}

TEST_CASE("a token on the command line is an unknown option, also where abbreviations are allowed") {
  for (const char* name : {"ddplaunch", "torchrun"}) {
    const std::string message = mistake({"--auth-token=secret", "p"}, {}, name);
    CHECK_THAT(message, Catch::Contains("--auth-token") && !Catch::Contains("secret"));
  }
}

TEST_CASE("options have the documented defaults") {
  const Options defaults = parsed_as({"p"});
  CHECK(defaults.compatibility_mode == CompatibilityMode::native);
  CHECK(defaults.nproc_per_node == WorkerCount());
  CHECK(defaults.backend.empty());
  CHECK(defaults.grace == 5s);
  CHECK(defaults.device_visibility == std::nullopt);
  CHECK(defaults.color == Color::automatic);
  CHECK(defaults.recording == Recording::steps);
  CHECK_FALSE(defaults.live);
  CHECK_FALSE(defaults.tag.has_value());
  CHECK_FALSE(defaults.collapse.has_value());
  CHECK(defaults.log == LogSettings{});
  CHECK(defaults.warnings.empty());
}

TEST_CASE("the command line overrides variables, variables override the file, and the file overrides defaults") {
  const ConfigFile file("job.toml", "grace = 3\nrole = \"file\"\nquiet\nmax_restarts = 1\n");
  const Words config = {"--config", file.path(), "p"};
  const Words environment = {"PET_GRACE=4", "PET_ROLE=variable", "PET_QUIET=0"};
  CHECK(parsed_as(config).grace == 3s);
  CHECK(parsed_as(config).log.level == LogLevel::warning);
  CHECK(parsed_as(config, environment).grace == 4s);
  CHECK(parsed_as(config, environment).log.level == LogLevel::info);
  CHECK(parsed_as(config, environment).max_restarts == 1);
  CHECK(parsed_as({"--grace=5", "--config", file.path(), "p"}, environment).grace == 5s);
  CHECK(parsed_as({"--grace=5", "--config", file.path(), "p"}, environment).role == "variable");
  CHECK(parsed_as({"--quiet", "p"}, environment).log.level == LogLevel::warning);
}

TEST_CASE("a TOML file has the same effect as the command line") {
  const ConfigFile file("job.toml",
                        "# a job\n\nnproc_per_node = 4\ntag = \"[${rank}] a, b\"  # before each line\nrole = 'x'\n"
                        "tee = [\"0:1\",\n  \"12:3\"]\nlocal-ranks-filter = 0,1\nlossless = true\nno-python = false\n"
                        "rdzv-conf = \"timeout=3,is_host=1\"\nduplicate-stdout-filters = \"a,,b,c\"\n");
  const Options read = parsed_as({"--config=" + file.path(), "p"});
  CHECK(read.nproc_per_node == 4);
  CHECK(read.tag == "[${rank}] a, b");
  CHECK(read.role == "x");
  CHECK(read.tee.of(12) == 3);
  CHECK(read.console_local_ranks == std::vector{0, 1});
  CHECK(read.lossless);
  CHECK_FALSE(read.no_python);
  CHECK(read.rdzv_conf.at("is_host") == "1");
  CHECK(read.stdout_filters == Words{"a,b", "c"});
}

TEST_CASE("the option --config reads settings from a JSON file, and an empty TOML file leaves the defaults") {
  const ConfigFile json("job.json", R"({"nproc-per-node": 4, "tag": "", "collapse": false})");
  CHECK(parsed_as({"--config", json.path(), "p"}).nproc_per_node == 4);
  CHECK(parsed_as({"--config", json.path(), "p"}).tag == "");
  CHECK(parsed_as({"--config", json.path(), "p"}).collapse == false);
  CHECK(parsed_as({"--config", ConfigFile("a.toml", "").path(), "p"}).grace == 5s);
}

TEST_CASE("durations may have units in each source") {
  CHECK(parsed_as({"--hang-timeout=10m", "--save-grace", "1h30m", "--exit-timeout=500ms", "p"}).hang_timeout == 10min);
  CHECK(parsed_as({"--save-grace", "1h30m", "p"}).save_grace == 90min);
  CHECK(parsed_as({"p"}, {"PET_HANG_TIMEOUT=90s"}).hang_timeout == 90s);
  CHECK(parsed_as({"p"}, {"PET_HANG_TIMEOUT=90"}).hang_timeout == 90s);
  const std::string torchrun = "torchrun";
  CHECK(parsed_as({"--shutdown-timeout=2m", "--monitor-interval=0.1", "p"}, {}, torchrun).grace == 2min);
  CHECK(parsed_as({"p"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=1m"}, torchrun).grace == 1min);
  const ConfigFile toml("job.toml", "grace = 2m\nhang-timeout = \"1h\"\nexit-timeout = 30\n");
  CHECK(parsed_as({"--config", toml.path(), "p"}).grace == 2min);
  CHECK(parsed_as({"--config", toml.path(), "p"}).hang_timeout == 1h);
  CHECK(parsed_as({"--config", toml.path(), "p"}).exit_timeout == 30s);
  const ConfigFile json("job.json", R"({"grace": "2m", "exit-timeout": 30})");
  CHECK(parsed_as({"--config", json.path(), "p"}).grace == 2min);
  CHECK(mistake({"--hang-timeout=10x", "p"}) ==
        "--hang-timeout=10x is not a time from 0 to 1000000 seconds. Use a number of seconds such as 30 or 0.5, or "
        "units as in 500ms, 90s, 10m or 1h30m. See ddplaunch --help");
}

TEST_CASE("error messages name the variable or the line of the file") {
  CHECK(mistake({"p"}, {"PET_NNODES=x"}).starts_with("PET_NNODES=x is not a number of nodes."));
  CHECK(mistake({"p"}, {"PET_DEVICE_VISIBILITY=one"}) ==
        "PET_DEVICE_VISIBILITY=one is not known. Use own or all. See ddplaunch --help");
  CHECK(mistake({"p"}, {"PET_STANDALONE=yes"}).starts_with("PET_STANDALONE=yes is not a whole number."));
  const ConfigFile file("job.ini", "quiet\ngrace = soon\n");
  CHECK(mistake({"--config", file.path(), "p"}).starts_with(file.path() + ":2: grace=soon is not a time from 0"));
  const ConfigFile section("job.toml", "[workers]\ngrace = 1\n");
  CHECK(mistake({"--config", section.path(), "p"}).find("sections are not supported") != std::string::npos);
  CHECK(mistake({"--config", "/nonexistent.toml", "p"}) ==
        "--config=/nonexistent.toml: the file cannot be read (No such file or directory). Check its name. See "
        "ddplaunch --help");
  CHECK(mistake({"--config", "/", "p"}).find("cannot be read (Is a directory)") != std::string::npos);
}

TEST_CASE("unknown PET_ variables give warnings") {
  CHECK(parsed_as({"p"}, {"PET_NPROC_PER_NOD=2"}).warnings.at(0).starts_with("PET_NPROC_PER_NOD has no effect"));
  CHECK(parsed_as({"p"}, {"PET_CONFIG=x"}).warnings.at(0).starts_with("PET_CONFIG has no effect"));
}

TEST_CASE("a job on several nodes lists the options that variables have set") {
  const Words environment = {"PET_NNODES=2", "PET_MASTER_ADDR=head", "PET_NODE_RANK=1"};
  CHECK(parsed_as({"p"}, environment).warnings ==
        Words{"options set by the environment: PET_MASTER_ADDR=head, PET_NNODES=2, PET_NODE_RANK=1"});
  CHECK(parsed_as({"--node-rank=0", "p"}, environment).warnings ==
        Words{"options set by the environment: PET_MASTER_ADDR=head, PET_NNODES=2"});
  CHECK(parsed_as({"--nnodes=2", "--master-addr=head", "--node-rank=0", "p"}, environment).warnings.empty());
  CHECK(parsed_as({"p"}, {"PET_ROLE=trainer"}).warnings.empty());
  CHECK(parsed_as({"p"}, environment, "torchrun").warnings.empty());
}

TEST_CASE("torchrun's compatibility mode applies when the program is called torchrun") {
  const std::string name = GENERATE("torchrun", "/usr/libexec/ddplaunch/torchrun", "./torchrun");
  const Options read = parsed_as({"--nproc", "2", "run", "--x"}, {}, name);
  CHECK(read.compatibility_mode == CompatibilityMode::torchrun);
  CHECK(read.nproc_per_node == 2);
  CHECK(read.command == Words{"run", "--x"});
  CHECK(read.grace == 30s);
  CHECK(parsed_as({"p"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=60"}, name).grace == 60s);
  CHECK(parsed_as({"--grace=1", "p"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x"}, name).grace == 1s);
  CHECK(mistake({"p"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x"}, name)
            .starts_with("TORCH_ELASTIC_SHUTDOWN_TIMEOUT=x is not a time from 0"));
  CHECK(parsed_as({"p"}, {"TORCH_ELASTIC_SHUTDOWN_TIMEOUT=60"}).grace == 5s);
  CHECK(information({"--help"}, name).starts_with("Usage: torchrun "));
  CHECK(mistake({"--zzzzzz", "p"}, {}, name).ends_with("See torchrun --help"));
  CHECK(parsed_as({"p"}, {}, "torchrunner").compatibility_mode == CompatibilityMode::native);
}

TEST_CASE("a reserved first word selects a subcommand, and a path never does") {
  CHECK(parsed_as({"run", "-q", "p"}).command == Words{"p"});
  CHECK(parsed_as({"run", "store"}).command == Words{"store"});
  const Options launch = parsed_as({"launch", "--nproc_per", "2", "train.py"});
  CHECK(launch.compatibility_mode == CompatibilityMode::torch_launch);
  CHECK(launch.local_rank_argument);
  CHECK_FALSE(parsed_as({"launch", "--use_env", "train.py"}).local_rank_argument);
  CHECK(mistake({"launch", "--no-python", "p"}).ends_with("See ddplaunch launch --help"));
  CHECK(mistake({"replay", "-q"}) ==
        "ddplaunch replay is reserved for future use. To start a program of that name, write ./replay or its path.");
  CHECK(parsed_as({"./replay"}).command == Words{"./replay"});
  CHECK(parsed_as({"./store"}).command == Words{"./store"});
  CHECK(parsed_as({"--", "store"}).command == Words{"store"});
  CHECK(parsed_as({"store"}, {}, "torchrun").command == Words{"store"});
  CHECK(parsed_as({"--", "run"}).command == Words{"run"});
  CHECK(parsed_as({"-q", "launch"}).command == Words{"launch"});
  CHECK(information({"help"}) == information({"--help"}));
}

TEST_CASE("the output of --help, --version and similar options is not reported as an error") {
  CHECK(information({"--help"}).find("--nproc-per-node") != std::string::npos);
  CHECK(information({"-h", "--no-such"}).starts_with("Usage: ddplaunch"));
  CHECK(information({"--version"}).starts_with("ddplaunch "));
  CHECK(information({"--man"}).starts_with(".TH DDPLAUNCH 1"));
  CHECK(information({"--completion", "bash"}).find("complete -o") != std::string::npos);
  CHECK(information({"--completion=zsh"}).starts_with("#compdef ddplaunch"));
  CHECK(information({"--completion=fish"}).find("complete -c ddplaunch") != std::string::npos);
  CHECK(mistake({"--completion=tcsh"}) ==
        "--completion=tcsh is not a shell that ddplaunch knows. Use bash, zsh or fish. See ddplaunch --help");
}

TEST_CASE("a launcher option after the script gives a warning") {
  const auto warning = parsed_as({"train.py", "--nproc_per_node=2"}).warnings.at(0);
  CHECK(warning.starts_with("--nproc_per_node=2 is passed to train.py"));
  CHECK(parsed_as({"train.py", "--lr=2", "nnodes"}).warnings.empty());
  CHECK(parsed_as({"accelerate", "--nnodes=2"}).warnings.empty());
}

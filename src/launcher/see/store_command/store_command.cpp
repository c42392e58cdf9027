#include "launcher/see/store_command/store_command.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <thread>

#include "base/exit_code.h"
#include "base/host_name.h"
#include "base/text.h"
#include "launcher/limits.h"
#include "launcher/run/job/store_listener.h"
#include "launcher/run/process/launcher_signals.h"
#include "launcher/see/report/report_file.h"
#include "launcher/see/store_command/inspection.h"
#include "launcher/start/cli/options.h"
#include "launcher/start/facts/node_facts.h"
#include "launcher/start/plan/rendezvous_plan.h"
#include "net/address.h"
#include "net/event_loop.h"
#include "store/client/store_visit.h"
#include "store/limits.h"
#include "wire/worker_env.h"

namespace ddp::launcher {
namespace {

using std::chrono::steady_clock;
using Token = std::shared_ptr<const store::Authenticator>;

// Returns the signals that also end a job. Signals that were ignored when this process started (nohup) stay ignored.
std::vector<int> ending_signals() {
  std::vector<int> signals = Options().ending_signals;
  signals.push_back(SIGQUIT);  // there are no ranks to report on
  const std::vector<int> ours = signals_to_care_for(signals);
  std::erase_if(signals, [&](int signal) { return std::ranges::find(ours, signal) == ours.end(); });
  return signals;
}

class Command {
 public:
  Command(const StoreOptions& options, Log& log) : options_(options), log_(log) {}

  int serve(const Token& token, const std::string& token_source) {
    for (const std::string& warning : store_warnings(options_, token_source)) log(LogLevel::warning, warning);
    net::EventLoop loop;
    const auto signals = loop.on_signals(ending_signals(), [&](int) { loop.stop(); });
    auto server = listen_at(options_.host, options_.port, server_options(token), "--host");
    if (!server) return fail(listen_failure(options_, server.error().message));
    store::StoreServer& store = *server.value();
    if (const auto warning = store.warning()) log(LogLevel::warning, *warning);
    const auto watch = loop.keep_watching(store.fd(), [&] { store.serve(); });
    log(LogLevel::info, serving_line(options_, store.port(), base::host_name()));
    if (!options_.port_file.empty()) {
      const std::string text = std::to_string(store.port()) + "\n";
      const auto failure =
          write_report(options_.port_file, text, "--port-file=" + options_.port_file, Document::port_file);
      if (failure) return fail(failure->message);
    }
    loop.run();
    return 0;
  }

  int inspect(const Token& token, int (*print)(const std::string& text)) {
    const auto until = steady_clock::now() + limits::kInspectTime;
    auto visit = store::StoreVisit::open(options_.host, options_.port, token, until);
    if (!visit) return fail(visit.error(), "Only ddplaunch's own store can be inspected.");
    const auto report = visit.value().report(until);
    if (!report) return fail(report.error());
    const auto absent = visit.value().absent_ranks(until);
    if (!absent) return fail(absent.error());
    const Inspection inspection{where(), visit.value().own_name(), report.value(), absent.value()};
    return print(options_.json ? inspection_json(inspection) : inspection_text(inspection));
  }

  int join(const Token& token) {
    if (!token) {
      return fail(std::string("--join needs the token of the store. Give it with --auth-token-file, or in ") +
                      wire::env::kAuthToken + ".",
                  base::kExitUsage);
    }
    auto visit = find_store(token);
    if (!visit) return fail(visit.error(), "Only ddplaunch's own store can be joined.");
    net::EventLoop loop;
    bool asked = false;
    const auto signals = loop.on_signals(ending_signals(), [&](int) {
      asked = true;
      loop.stop();
    });
    // A store never sends anything without a request.
    const auto watch = loop.watch_readable(visit.value().fd(), [&] { loop.stop(); });
    log(LogLevel::info,
        "this node has joined the store at " + where() + "; its programs may use the store while this command runs");
    loop.run();
    if (asked) return 0;
    return fail("the store at " + where() + " is no longer reachable (" + visit.value().why_lost() +
                "). Join it again when it is back.");
  }

 private:
  std::string where() const { return net::host_and_port(options_.host, options_.port); }

  int fail(const std::string& message, int exit_code = base::kExitOwnFault) {
    log(LogLevel::error, message);
    return exit_code;
  }

  void log(LogLevel level, const std::string& text) { log_.write({level, LogSource::store, text}); }

  // `only_ours` is added to the message if the server is not ddplaunch's own store.
  int fail(const store::VisitFailure& failure, const std::string& only_ours = "") {
    const bool foreign = failure.kind == store::VisitFailure::Kind::foreign && !only_ours.empty();
    return fail(failure.message + "." + (foreign ? " " + only_ours : ""));
  }

  store::StoreServerOptions server_options(const Token& token) {
    store::StoreServerOptions options;
    options.limits = options_.limits;
    options.open = options_.open;
    options.authenticator = token;
    options.on_rejection = [this](const std::string& peer, const std::string& reason) {
      warn("the store refused " + peer + ": " + reason);
    };
    options.on_given_up = [this](const std::string& text) { warn(text); };
    return options;
  }

  void warn(const std::string& line) {
    if (++warnings_ <= limits::kStoreWarnings) log(LogLevel::warning, line);
    if (warnings_ == limits::kStoreWarnings) log(LogLevel::warning, "further store warnings are not shown");
  }

  // Waits for a store that does not run yet. Meanwhile a signal ends this process as it ends every program.
  base::Result<store::StoreVisit, store::VisitFailure> find_store(const Token& token) {
    const auto until = steady_clock::now() + limits::kStoreJoinWait;
    bool reported = false;
    while (true) {
      auto visit = store::StoreVisit::open(options_.host, options_.port, token, until);
      const bool again = !visit && visit.error().kind == store::VisitFailure::Kind::unreachable &&
                         steady_clock::now() + limits::kStoreLongestPause < until;
      if (!again) return visit;
      if (!std::exchange(reported, true)) {
        log(LogLevel::note,
            visit.error().message + "; trying again for " + base::human_duration(limits::kStoreJoinWait));
      }
      std::this_thread::sleep_for(limits::kStoreLongestPause);
    }
  }

  const StoreOptions& options_;
  Log& log_;
  int warnings_ = 0;
};

bool is_everywhere(const std::string& host) {
  return host == "::" || host == "0.0.0.0";
}

}  // namespace

int run_store_command(const StoreOptions& options, const std::vector<std::string>& environment, Log& log,
                      int (*print)(const std::string& text)) {
  const auto token = read_auth_token(options.auth_token_file, environment);
  hide_auth_token();
  if (!token) {
    log.write({LogLevel::error, LogSource::store, token.error().message});
    return base::kExitUsage;
  }
  Command command(options, log);
  if (options.action == StoreOptions::Action::inspect) return command.inspect(token.value(), print);
  if (options.action == StoreOptions::Action::join) return command.join(token.value());
  const std::string source =
      options.auth_token_file.empty() ? wire::env::kAuthToken : "--auth-token-file=" + options.auth_token_file;
  return command.serve(token.value(), token.value() ? source : "");
}

std::string serving_line(const StoreOptions& options, std::uint16_t port, const std::string& host_name) {
  const std::string reached = is_everywhere(options.host) ? host_name : options.host;
  // Without the last two variables, rank 0 of a PyTorch program starts its own store there (1.13 requires both).
  return "the store listens on " + net::host_and_port(options.host, port) +
         "; programs find it with MASTER_ADDR=" + reached + " MASTER_PORT=" + std::to_string(port) +
         " TORCHELASTIC_USE_AGENT_STORE=True TORCHELASTIC_RESTART_COUNT=0, and ddplaunch store --inspect " +
         net::host_and_port(reached, port) + " shows which clients wait for which keys";
}

std::string listen_failure(const StoreOptions& options, const std::string& why) {
  if (!why.ends_with(std::strerror(EADDRINUSE))) return why + "." + listen_remedy(why, "--host", "--port=");
  const std::string where = net::host_and_port(is_everywhere(options.host) ? "127.0.0.1" : options.host, options.port);
  return why + ". If that is a store, ddplaunch store --inspect " + where +
         " shows its clients; ss -ltnp shows its process. --port 0 takes a free port.";
}

std::vector<std::string> store_warnings(const StoreOptions& options, const std::string& token_source) {
  std::vector<std::string> warnings;
  if (options.open && !token_source.empty()) {
    warnings.push_back(token_source + " has no effect together with --store-open");
  } else if (!options.auth_token_file.empty() && (options.host == "localhost" || is_loopback(options.host))) {
    warnings.push_back(token_source + " has no effect: the store listens on " + options.host +
                       ", which other nodes cannot reach (--host)");
  }
  return warnings;
}

}  // namespace ddp::launcher

// JobViews feeds the views of a running job: the lines below its output, ddplaunch top, the history for the report, and
// the trace. docs/development/decisions/0047-one-stream-of-records.md
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "launcher/run/job/job_driver.h"
#include "launcher/run/output/output_followers.h"
#include "launcher/run/output/output_pump.h"
#include "launcher/run/process/preloader.h"
#include "launcher/run/ranks/rank_probe.h"
#include "launcher/run/ranks/rank_sink.h"
#include "launcher/see/report/trace_file.h"
#include "launcher/see/top/view_server.h"
#include "launcher/see/view/job_history.h"
#include "launcher/see/view/snapshot_builder.h"
#include "launcher/start/log/log_line.h"
#include "launcher/start/plan/launch_plan.h"
#include "net/event_loop.h"

namespace ddp::launcher {

// All of these objects must outlive the views.
struct JobViewsParts {
  net::EventLoop& loop;
  const LaunchPlan& plan;
  RankProbe& probe;
  OutputPump& output;
  LogWriter log;
  const Preloader* preloader = nullptr;  // null if there is none
};

// Belongs to the event loop's thread.
class JobViews : public RankSink {
 public:
  explicit JobViews(JobViewsParts parts);
  ~JobViews() override;

  // Begins to serve views in other processes.
  void begin();
  // Sets the driver of the job, for stacks and spare nodes. It is used until end().
  void set_driver(JobDriver& driver) { driver_ = &driver; }

  // Returns an observer that passes everything on to `next`, after the views have seen it.
  JobObserver before(JobObserver next);
  // An attempt begins in which this node has this placement. The coordinator sees the ranks of all nodes.
  void begin_watch(const Placement& placement, bool is_coordinator);
  // Returns the history of the attempt that has ended.
  AttemptHistory history();
  // The job is over: removes the lines below the output, and completes the trace.
  void end();

  void add(const Picture& picture) override;
  void add_records(const RankRecords& records) override;
  bool wants_processes() const override;
  bool wants_records() const override;

 private:
  bool has_history() const { return !parts_.plan.event_log.empty() || !parts_.plan.report_file.empty(); }
  bool has_clients() const { return server_ && server_->has_clients(); }
  void see(const Event& event);
  JobSnapshot snapshot();
  std::vector<ProgressValue> reported_values() const;
  void take_stacks(int rank, const ViewServer::Reply& reply);
  std::unique_ptr<net::Watch> follow(int rank, ViewServer::Sink sink);
  std::vector<std::string> lines(TerminalSize size);
  void show_lines();
  void show_lines_later();

  const JobViewsParts parts_;
  SnapshotBuilder builder_;
  JobHistory history_;
  OutputFollowers followers_;
  std::optional<TraceFile> trace_;
  std::unique_ptr<ViewServer> server_;  // null if no socket could be made
  JobDriver* driver_ = nullptr;
  Placement placement_;
  std::unique_ptr<net::Watch> timer_;
};

}  // namespace ddp::launcher

// Implements the operations of <ddp/c.h>, and its functions for operations under way. Each operation becomes a call of
// ProcessGroup, which checks everything that CCall does not.
#include <ddp/work.h>

#include <chrono>

#include "runtime/c/boundary.h"
#include "runtime/c/c_call.h"
#include "runtime/c/handles.h"

using namespace ddp::internal;

namespace {

// Starts an operation, and waits for it, or gives the program its handle.
template <typename Start>
int run(const char* function, const ddp_group* group, const ddp_call_options* options, ddp_work** work,
        const Start& start) {
  return at_boundary([&] {
    const CCall call(function, group, options, work);
    call.finish(start(call));
  });
}

}  // namespace

int ddp_all_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op,
                   const ddp_call_options* options, ddp_work** work) {
  return run("ddp_all_reduce", group, options, work, [&](const CCall& call) {
    return call.group().all_reduce(call.output(buffer, count, type), call.reduction(op), call.options(), call.site());
  });
}

int ddp_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op, int32_t root,
               const ddp_call_options* options, ddp_work** work) {
  return run("ddp_reduce", group, options, work, [&](const CCall& call) {
    return call.group().reduce(call.output(buffer, count, type), root, call.reduction(op), call.options(), call.site());
  });
}

int ddp_broadcast(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t root,
                  const ddp_call_options* options, ddp_work** work) {
  return run("ddp_broadcast", group, options, work, [&](const CCall& call) {
    return call.group().broadcast(call.output(buffer, count, type), root, call.options(), call.site());
  });
}

int ddp_all_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                   const ddp_call_options* options, ddp_work** work) {
  return run("ddp_all_gather", group, options, work, [&](const CCall& call) {
    return call.group().all_gather(call.whole_output(output, count, type), call.input(input, count, type),
                                   call.options(), call.site());
  });
}

int ddp_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
               const ddp_call_options* options, ddp_work** work) {
  return run("ddp_gather", group, options, work, [&](const CCall& call) {
    return call.group().gather(call.whole_output(output, count, type), call.input(input, count, type), root,
                               call.options(), call.site());
  });
}

int ddp_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
                const ddp_call_options* options, ddp_work** work) {
  return run("ddp_scatter", group, options, work, [&](const CCall& call) {
    return call.group().scatter(call.output(output, count, type), call.whole_input(input, count, type), root,
                                call.options(), call.site());
  });
}

int ddp_reduce_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t op,
                       const ddp_call_options* options, ddp_work** work) {
  return run("ddp_reduce_scatter", group, options, work, [&](const CCall& call) {
    return call.group().reduce_scatter(call.output(output, count, type), call.whole_input(input, count, type),
                                       call.reduction(op), call.options(), call.site());
  });
}

int ddp_all_to_all(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                   const ddp_call_options* options, ddp_work** work) {
  return run("ddp_all_to_all", group, options, work, [&](const CCall& call) {
    return call.group().all_to_all(call.whole_output(output, count, type), call.whole_input(input, count, type),
                                   call.options(), call.site());
  });
}

int ddp_all_gather_parts(ddp_group* group, const void* input, int64_t count, const ddp_part* outputs, int64_t parts,
                         int32_t type, const ddp_call_options* options, ddp_work** work) {
  return run("ddp_all_gather_parts", group, options, work, [&](const CCall& call) {
    return call.group().all_gather(call.outputs(outputs, parts, type), call.input(input, count, type), call.options(),
                                   call.site());
  });
}

int ddp_gather_parts(ddp_group* group, const void* input, int64_t count, const ddp_part* outputs, int64_t parts,
                     int32_t type, int32_t root, const ddp_call_options* options, ddp_work** work) {
  return run("ddp_gather_parts", group, options, work, [&](const CCall& call) {
    return call.group().gather(call.outputs(outputs, parts, type), call.input(input, count, type), root, call.options(),
                               call.site());
  });
}

int ddp_scatter_parts(ddp_group* group, const ddp_part* inputs, int64_t parts, void* output, int64_t count,
                      int32_t type, int32_t root, const ddp_call_options* options, ddp_work** work) {
  return run("ddp_scatter_parts", group, options, work, [&](const CCall& call) {
    return call.group().scatter(call.output(output, count, type), call.inputs(inputs, parts, type), root,
                                call.options(), call.site());
  });
}

int ddp_reduce_scatter_parts(ddp_group* group, const ddp_part* inputs, int64_t parts, void* output, int64_t count,
                             int32_t type, int32_t op, const ddp_call_options* options, ddp_work** work) {
  return run("ddp_reduce_scatter_parts", group, options, work, [&](const CCall& call) {
    return call.group().reduce_scatter(call.output(output, count, type), call.inputs(inputs, parts, type),
                                       call.reduction(op), call.options(), call.site());
  });
}

int ddp_all_to_all_parts(ddp_group* group, const ddp_part* inputs, const ddp_part* outputs, int64_t parts, int32_t type,
                         const ddp_call_options* options, ddp_work** work) {
  return run("ddp_all_to_all_parts", group, options, work, [&](const CCall& call) {
    return call.group().all_to_all(call.outputs(outputs, parts, type), call.inputs(inputs, parts, type), call.options(),
                                   call.site());
  });
}

int ddp_send(ddp_group* group, const void* buffer, int64_t count, int32_t type, int32_t to,
             const ddp_call_options* options, ddp_work** work) {
  return run("ddp_send", group, options, work, [&](const CCall& call) {
    return call.group().send(call.input(buffer, count, type), to, call.options(), call.site());
  });
}

int ddp_recv(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t from, const ddp_call_options* options,
             ddp_work** work) {
  return run("ddp_recv", group, options, work, [&](const CCall& call) {
    return call.group().recv(call.output(buffer, count, type), from, call.options(), call.site());
  });
}

int ddp_barrier(ddp_group* group, const ddp_call_options* options, ddp_work** work) {
  return run("ddp_barrier", group, options, work,
             [&](const CCall& call) { return call.group().barrier(call.options(), call.site()); });
}

int ddp_work_wait(ddp_work* work) {
  return at_boundary([&] { handles().works.find("ddp_work_wait", work)->wait(); });
}

int ddp_work_wait_for(ddp_work* work, int64_t timeout_ms, int32_t* done) {
  return at_boundary([&] {
    require_output("ddp_work_wait_for", "done", done);
    const auto operation = handles().works.find("ddp_work_wait_for", work);
    const auto limit = timeout_of("ddp_work_wait_for", timeout_ms).value_or(std::chrono::milliseconds(0));
    *done = 1;  // stays 1 if wait_for() throws, because the operation has then failed
    if (!operation->wait_for(limit)) *done = 0;
  });
}

int ddp_work_test(ddp_work* work, int32_t* done) {
  return at_boundary([&] {
    require_output("ddp_work_test", "done", done);
    const auto operation = handles().works.find("ddp_work_test", work);
    if (!operation->done()) return;
    *done = 1;
    operation->wait();
  });
}

int ddp_work_destroy(ddp_work* work) {
  return at_boundary([&] {
    if (work != nullptr) handles().works.take("ddp_work_destroy", work);
  });
}

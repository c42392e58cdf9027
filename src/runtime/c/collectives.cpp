// Implements the operations of <ddp/c.h>. Each becomes a call of ProcessGroup, which checks everything that CCall does
// not.
#include "runtime/c/boundary.h"
#include "runtime/c/c_call.h"

using namespace ddp::internal;

int ddp_all_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op,
                   const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_all_reduce", group, options, work);
    call.finish(
        call.group().all_reduce(call.output(buffer, count, type), call.reduction(op), call.options(), call.site()));
  });
}

int ddp_reduce(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t op, int32_t root,
               const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_reduce", group, options, work);
    call.finish(
        call.group().reduce(call.output(buffer, count, type), root, call.reduction(op), call.options(), call.site()));
  });
}

int ddp_broadcast(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t root,
                  const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_broadcast", group, options, work);
    call.finish(call.group().broadcast(call.output(buffer, count, type), root, call.options(), call.site()));
  });
}

int ddp_all_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                   const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_all_gather", group, options, work);
    call.finish(call.group().all_gather(call.whole_output(output, count, type), call.input(input, count, type),
                                        call.options(), call.site()));
  });
}

int ddp_gather(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
               const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_gather", group, options, work);
    call.finish(call.group().gather(call.whole_output(output, count, type), call.input(input, count, type), root,
                                    call.options(), call.site()));
  });
}

int ddp_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t root,
                const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_scatter", group, options, work);
    call.finish(call.group().scatter(call.output(output, count, type), call.whole_input(input, count, type), root,
                                     call.options(), call.site()));
  });
}

int ddp_reduce_scatter(ddp_group* group, const void* input, void* output, int64_t count, int32_t type, int32_t op,
                       const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_reduce_scatter", group, options, work);
    call.finish(call.group().reduce_scatter(call.output(output, count, type), call.whole_input(input, count, type),
                                            call.reduction(op), call.options(), call.site()));
  });
}

int ddp_all_to_all(ddp_group* group, const void* input, void* output, int64_t count, int32_t type,
                   const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_all_to_all", group, options, work);
    call.finish(call.group().all_to_all(call.whole_output(output, count, type), call.whole_input(input, count, type),
                                        call.options(), call.site()));
  });
}

int ddp_all_gather_parts(ddp_group* group, const void* input, int64_t count, const ddp_part* outputs, int64_t parts,
                         int32_t type, const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_all_gather_parts", group, options, work);
    call.finish(call.group().all_gather(call.outputs(outputs, parts, type), call.input(input, count, type),
                                        call.options(), call.site()));
  });
}

int ddp_gather_parts(ddp_group* group, const void* input, int64_t count, const ddp_part* outputs, int64_t parts,
                     int32_t type, int32_t root, const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_gather_parts", group, options, work);
    call.finish(call.group().gather(call.outputs(outputs, parts, type), call.input(input, count, type), root,
                                    call.options(), call.site()));
  });
}

int ddp_scatter_parts(ddp_group* group, const ddp_part* inputs, int64_t parts, void* output, int64_t count,
                      int32_t type, int32_t root, const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_scatter_parts", group, options, work);
    call.finish(call.group().scatter(call.output(output, count, type), call.inputs(inputs, parts, type), root,
                                     call.options(), call.site()));
  });
}

int ddp_reduce_scatter_parts(ddp_group* group, const ddp_part* inputs, int64_t parts, void* output, int64_t count,
                             int32_t type, int32_t op, const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_reduce_scatter_parts", group, options, work);
    call.finish(call.group().reduce_scatter(call.output(output, count, type), call.inputs(inputs, parts, type),
                                            call.reduction(op), call.options(), call.site()));
  });
}

int ddp_all_to_all_parts(ddp_group* group, const ddp_part* inputs, const ddp_part* outputs, int64_t parts, int32_t type,
                         const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_all_to_all_parts", group, options, work);
    call.finish(call.group().all_to_all(call.outputs(outputs, parts, type), call.inputs(inputs, parts, type),
                                        call.options(), call.site()));
  });
}

int ddp_send(ddp_group* group, const void* buffer, int64_t count, int32_t type, int32_t to,
             const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_send", group, options, work);
    call.finish(call.group().send(call.input(buffer, count, type), to, call.options(), call.site()));
  });
}

int ddp_recv(ddp_group* group, void* buffer, int64_t count, int32_t type, int32_t from, const ddp_call_options* options,
             ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_recv", group, options, work);
    call.finish(call.group().recv(call.output(buffer, count, type), from, call.options(), call.site()));
  });
}

int ddp_barrier(ddp_group* group, const ddp_call_options* options, ddp_work** work) {
  return at_boundary([&] {
    const CCall call("ddp_barrier", group, options, work);
    call.finish(call.group().barrier(call.options(), call.site()));
  });
}

// These are the names of the environment variables between launcher and worker. docs/reference/environment.md gives
// their meaning.
#pragma once

namespace ddp::wire::env {

// torchrun defines these variables.
inline constexpr const char* kRank = "RANK";
inline constexpr const char* kLocalRank = "LOCAL_RANK";
inline constexpr const char* kWorldSize = "WORLD_SIZE";
inline constexpr const char* kLocalWorldSize = "LOCAL_WORLD_SIZE";
inline constexpr const char* kGroupRank = "GROUP_RANK";
inline constexpr const char* kGroupWorldSize = "GROUP_WORLD_SIZE";
inline constexpr const char* kRoleName = "ROLE_NAME";
inline constexpr const char* kRoleRank = "ROLE_RANK";
inline constexpr const char* kRoleWorldSize = "ROLE_WORLD_SIZE";
inline constexpr const char* kMasterAddr = "MASTER_ADDR";
inline constexpr const char* kMasterPort = "MASTER_PORT";
inline constexpr const char* kRestartCount = "TORCHELASTIC_RESTART_COUNT";
inline constexpr const char* kMaxRestarts = "TORCHELASTIC_MAX_RESTARTS";
inline constexpr const char* kRunId = "TORCHELASTIC_RUN_ID";
inline constexpr const char* kUseAgentStore = "TORCHELASTIC_USE_AGENT_STORE";
inline constexpr const char* kErrorFile = "TORCHELASTIC_ERROR_FILE";
inline constexpr const char* kSignalsToHandle = "TORCHELASTIC_SIGNALS_TO_HANDLE";
inline constexpr const char* kNcclAsyncErrorHandling = "TORCH_NCCL_ASYNC_ERROR_HANDLING";
inline constexpr const char* kOmpNumThreads = "OMP_NUM_THREADS";
// The launcher reads this: it names a file for the observations of its hang detector.
inline constexpr const char* kHangTrace = "DDP_HANG_TRACE";
// The launcher reads this in its tests: it is limits::kHangStill in seconds.
inline constexpr const char* kTestStillLimit = "DDP_TEST_STILL_LIMIT";
inline constexpr const char* kGlooInterface = "GLOO_SOCKET_IFNAME";
inline constexpr const char* kNcclInterface = "NCCL_SOCKET_IFNAME";
inline constexpr const char* kNcclRasAddress = "NCCL_RAS_ADDR";
inline constexpr const char* kNcclRasEnable = "NCCL_RAS_ENABLE";
inline constexpr const char* kNcclProfiler = "NCCL_PROFILER_PLUGIN";
inline constexpr const char* kCudaVisibleDevices = "CUDA_VISIBLE_DEVICES";
inline constexpr const char* kCudaConnections = "CUDA_DEVICE_MAX_CONNECTIONS";

// ddplaunch defines these variables.
inline constexpr const char* kBackend = "DDP_BACKEND";
inline constexpr const char* kQuiet = "DDP_QUIET";
inline constexpr const char* kAttempt = "DDP_ATTEMPT";
inline constexpr const char* kLastFailure = "DDP_LAST_FAILURE";
// This is the job's token, for the launcher only: workers never get it.
inline constexpr const char* kAuthToken = "DDP_AUTH_TOKEN";
inline constexpr const char* kPluginDir = "DDP_PLUGIN_DIR";
inline constexpr const char* kDebug = "DDP_DEBUG";
inline constexpr const char* kStatusPage = "DDP_PAGE_FD";
inline constexpr const char* kRecordRing = "DDP_RECORD_FD";
inline constexpr const char* kStateMemory = "DDP_STATE_MEMORY";
inline constexpr const char* kWatched = "DDP_WATCHED";
// kTorchFile names the file in which code in a worker's Python writes how its PyTorch can be queried. The user can set
// kTorch to "0" to disable that.
inline constexpr const char* kTorchFile = "DDP_TORCH_FILE";
inline constexpr const char* kTorch = "DDP_TORCH";
// These are for the process from which workers are forked: the modules to import, and the variables that it lacks.
inline constexpr const char* kPreload = "DDP_PRELOADER";
inline constexpr const char* kPreloadUnknown = "DDP_PRELOADER_UNKNOWN";
// The directory in which a launcher and its worker of the doctor meet.
inline constexpr const char* kDoctorDirectory = "DDP_DOCTOR_DIR";
inline constexpr const char* kPythonPath = "PYTHONPATH";
inline constexpr const char* kPythonUnbuffered = "PYTHONUNBUFFERED";
inline constexpr const char* kStackSignal = "DDP_STACK_SIGNAL";
inline constexpr const char* kGpuMarks = "DDP_GPU_MARKS";
inline constexpr const char* kGpuRegister = "DDP_GPU_REGISTER";
inline constexpr const char* kInject = "DDP_INJECT";

// mpirun sets these, and they are read if RANK is absent.
inline constexpr const char* kOmpiRank = "OMPI_COMM_WORLD_RANK";
inline constexpr const char* kOmpiSize = "OMPI_COMM_WORLD_SIZE";
inline constexpr const char* kOmpiLocalRank = "OMPI_COMM_WORLD_LOCAL_RANK";
inline constexpr const char* kOmpiLocalSize = "OMPI_COMM_WORLD_LOCAL_SIZE";

}  // namespace ddp::wire::env

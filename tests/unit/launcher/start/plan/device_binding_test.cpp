#include "launcher/start/plan/device_binding.h"

#include "support/catch.h"

using namespace ddp::launcher;
using Names = std::vector<std::string>;
using Visible = std::vector<std::optional<std::string>>;

namespace {

const std::vector<GpuFacts> kMachine = {{0, "GPU-aa11", "", {}}, {1, "GPU-ab22", "", {}}, {2, "GPU-cc33", "", {}}};

Names names(const std::vector<VisibleGpu>& gpus) {
  Names result;
  for (const VisibleGpu& gpu : gpus) result.push_back(gpu.name);
  return result;
}

Names visible(const std::string& list) {
  return names(visible_gpus(list, kMachine));
}

std::string choose(const std::string& asked, const std::optional<std::string>& inherited = std::nullopt) {
  const auto chosen = choose_gpus(asked, visible_gpus(inherited, kMachine), kMachine);
  return chosen ? gpu_names(chosen.value()) : chosen.error().message;
}

DeviceRequest request(int workers, const Names& gpus) {
  DeviceRequest result;
  result.workers = workers;
  for (std::size_t i = 0; i < gpus.size(); ++i) result.gpus.push_back({gpus[i], static_cast<int>(i)});
  return result;
}

std::string refusal(const DeviceRequest& request) {
  const auto result = bind_devices(request);
  return result ? "none" : result.error().message;
}

bool contains(const std::string& text, const std::string& words) {
  return text.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("an inherited CUDA_VISIBLE_DEVICES is respected") {
  CHECK(names(visible_gpus(std::nullopt, kMachine)) == Names{"0", "1", "2"});
  CHECK(visible("2,0") == Names{"2", "0"});
  CHECK(visible(" 2, 0 ") == Names{"2", "0"});
  CHECK(visible("MIG-77,MIG-5") == Names{"MIG-77", "MIG-5"});
  CHECK(visible("").empty());
  CHECK(visible("-1").empty());
  CHECK(visible_gpus("0", {}).empty());
}

TEST_CASE("CUDA_VISIBLE_DEVICES is read up to the entry at which CUDA stops") {
  CHECK(visible("1,7,0") == Names{"1"});
  CHECK(visible("1,-1,0") == Names{"1"});
  CHECK(visible("1,GPU-zz,0") == Names{"1"});
}

TEST_CASE("CUDA_VISIBLE_DEVICES is parsed as CUDA parses it") {
  struct Case {
    const char* list;
    Names names;
  };
  // The expected names follow the model in PyTorch's torch/cuda/__init__.py.
  const Case cases[] = {
      {"1gpu2,2ampere", {"1", "2"}},  // numbers are read as by strtoul
      {"+1,02", {"1", "2"}},
      {"x1,0", {}},
      {"1,,0", {"1"}},
      {"0,GPU-cc33", {"0"}},  // names of several kinds do not mix
      {"0,MIG-77", {"0"}},
      {"GPU-cc33,0", {"GPU-cc33"}},
      {"GPU-cc33,MIG-77", {"GPU-cc33"}},
      {"MIG-77,GPU-cc33", {"MIG-77"}},
      {"0,0", {}},  // if a GPU is named twice, no GPU is visible
      {"1,0,1x", {}},
      {"GPU-cc33,GPU-cc33", {}},
      {"GPU-cc33,GPU-cc", {}},
      {"MIG-77,MIG-77", {}},
      {"0,9,0", {"0"}},  // what follows an unknown name is not read
  };
  for (const Case& expected : cases) {
    CAPTURE(expected.list);
    CHECK(visible(expected.list) == expected.names);
  }
  CHECK(repeated_gpu("1,0,1x", kMachine) == "1");
  CHECK_FALSE(repeated_gpu("1,0", kMachine).has_value());
}

TEST_CASE("a UUID may be abbreviated as long as it is unambiguous") {
  CHECK(visible_gpus("GPU-c", kMachine) == std::vector<VisibleGpu>{{"GPU-c", 2}});
  CHECK(visible("GPU-a,0").empty());
  CHECK(choose("GPU-ab") == "GPU-ab");
  CHECK(contains(choose("GPU-a"), "GPU-a is a prefix of several UUIDs"));
}

TEST_CASE("a UUID that cannot be checked is accepted") {
  const std::vector<GpuFacts> nameless = {{0, "", "", {}}, {1, "", "", {}}};
  CHECK(visible_gpus("GPU-x,GPU-y", nameless) ==
        std::vector<VisibleGpu>{{"GPU-x", std::nullopt}, {"GPU-y", std::nullopt}});
  CHECK(choose_gpus("GPU-x", visible_gpus(std::nullopt, nameless), nameless).ok());
}

TEST_CASE("a selected GPU index counts among the visible GPUs") {
  CHECK(choose("2,0") == "2,0");
  CHECK(choose("0", "2,1") == "2");
  CHECK(choose("1,0", "GPU-cc33,GPU-aa") == "GPU-aa,GPU-cc33");
  CHECK(choose("MIG-5") == "MIG-5");
  CHECK(choose("MIG-5", "MIG-4,MIG-5") == "MIG-5");
}

TEST_CASE("an unknown selected GPU is an error that lists the available ones") {
  CHECK(
      choose("0,3") ==
      "--gpus=0,3: 3 is not the index of a visible GPU. Visible: 0,1,2. Use indices from 0 to 2 (they count among the "
      "visible GPUs), UUIDs or MIG names, separated by commas.");
  CHECK(contains(choose("2", "1,0"), "2 is not the index of a visible GPU. Visible: 1,0."));
  CHECK(contains(choose("GPU-zz"), "GPU-zz is not a GPU of this job"));
  CHECK(contains(choose("GPU-aa", "1"), "GPU-aa is not visible here"));
  CHECK(contains(choose("MIG-9", "MIG-4"), "MIG-9 is not a GPU of this job"));
  CHECK(contains(choose(""), "an empty name"));
  CHECK(contains(choose("0,"), "an empty name"));
  CHECK(contains(choose("x"), "x is not the index"));
}

TEST_CASE("a GPU can be selected only once") {
  CHECK(contains(choose("1,1"), "names a GPU twice (1)"));
  CHECK(contains(choose("0,GPU-aa11"), "names a GPU twice (GPU-aa11)"));
}

TEST_CASE("a GPU selection without GPUs is an error with the reason") {
  CHECK(contains(choose_gpus("0", {}, {}).error().message, "this node has no visible GPU"));
  CHECK(contains(choose("0", ""), "CUDA_VISIBLE_DEVICES hides all GPUs"));
}

TEST_CASE("each worker gets its own GPU") {
  const DeviceBinding binding = bind_devices(request(2, {"0", "3"})).value();
  CHECK(binding.visible == Visible{"0", "3"});
  CHECK(binding.meant[1]->name == "3");
  CHECK(bind_devices(request(1, {"0", "3"})).value().visible == Visible{"0"});
}

TEST_CASE("with --gpu-visibility=all CUDA_VISIBLE_DEVICES is unchanged unless GPUs were selected") {
  DeviceRequest all = request(2, {"0", "3"});
  all.own = false;
  CHECK(bind_devices(all).value().visible == Visible{std::nullopt, std::nullopt});
  CHECK(bind_devices(all).value().meant[1]->name == "3");
  all.chosen = true;
  CHECK(bind_devices(all).value().visible == Visible{"0,3", "0,3"});
}

TEST_CASE("a worker that sees all selected GPUs gets a list with names of one kind") {
  DeviceRequest all;
  all.own = false;
  all.chosen = true;
  all.gpus = {{"2", 2}, {"GPU-aa11", 0}};
  CHECK(bind_devices(all).value().visible == Visible{"2,0"});
  all.gpus = {{"GPU-cc33", 2}, {"GPU-aa11", 0}};
  CHECK(bind_devices(all).value().visible == Visible{"GPU-cc33,GPU-aa11"});
  all.gpus = {{"2", 2}, {"MIG-5", std::nullopt}};
  CHECK(contains(refusal(all), "--gpus=2,MIG-5 mixes MIG names and other names"));
  all.own = true;
  CHECK(bind_devices(all).value().visible == Visible{"2"});
}

TEST_CASE("more workers than GPUs are an error that says what to do") {
  const std::string message =
      "8 workers but 4 GPUs (0,1,2,3). Use --nproc-per-node=4, or share GPUs with --oversubscribe.";
  DeviceRequest eight = request(8, {"0", "1", "2", "3"});
  CHECK(refusal(eight) == message + " For a CPU job use --backend=cpu.");
  eight.own = false;
  for (const bool chosen : {true, false}) {
    eight.chosen = chosen;
    eight.backend = chosen ? "" : "nccl";
    CHECK(refusal(eight) == message);
  }
  eight.backend = "gloo";
  eight.chosen = true;
  CHECK(refusal(eight) == message);
  eight.chosen = false;
  eight.virtual_local_rank = true;
  CHECK(refusal(eight) == message);
}

TEST_CASE("a CPU job may have more workers than there are GPUs") {
  DeviceRequest job = request(3, {"0", "1"});
  job.backend = "gloo";
  CHECK(bind_devices(job).value().visible == Visible(3));
  CHECK(bind_devices(job).value().note.empty());
  job.backend = "";
  job.own = false;
  CHECK(bind_devices(job).value().visible == Visible(3));
  CHECK_FALSE(bind_devices(job).value().meant[0].has_value());
  CHECK(contains(bind_devices(job).value().note,
                 "3 workers but 2 GPUs (0,1); the workers see all GPUs, which is correct only for a CPU job"));
}

TEST_CASE("oversubscribed workers share the GPUs in turn") {
  DeviceRequest three = request(3, {"4", "5"});
  three.oversubscribe = true;
  CHECK(bind_devices(three).value().visible == Visible{"4", "5", "4"});
}

TEST_CASE("without GPUs no device is bound") {
  CHECK(bind_devices(request(2, {})).value().visible == Visible{std::nullopt, std::nullopt});
}

TEST_CASE("a virtual local rank gets one visible GPU, at most as many as were inherited") {
  DeviceRequest two = request(2, {});
  two.virtual_local_rank = true;
  CHECK(bind_devices(two).value().visible == Visible{"0", "1"});
  CHECK_FALSE(bind_devices(two).value().meant[0].has_value());
  two.inherited = "3, 5,7";
  CHECK(bind_devices(two).value().visible == Visible{"3", "5"});
  two.inherited = "3";
  CHECK(contains(refusal(two), "CUDA_VISIBLE_DEVICES=3 names 1 for 2 workers"));
  two.inherited = "";
  CHECK(contains(refusal(two), "names 0 for 2 workers"));
  DeviceRequest shown = request(2, {"0", "1"});
  shown.virtual_local_rank = true;
  shown.own = false;
  CHECK(bind_devices(shown).value().visible == Visible{"0", "1"});
}

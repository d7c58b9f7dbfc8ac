#include "interposer/budget/budgets.h"

#include <algorithm>
#include <set>

#include "base/byte_size.h"
#include "base/log.h"
#include "base/shared_library.h"
#include "cuda/resources.h"

namespace ucudnn::interposer {
namespace {

// The plug-in's path relative to the folder of libucudnn.so.1, both in the build tree and in the
// install tree.
constexpr char kGlpkPlugin[] = "ucudnn/libucudnn_glpk.so";

// Returns the path of the GLPK plug-in; empty if the user wants the exact solver.
std::string SolverPath(const Options& options) {
  if (options.solver != Solver::kGlpk) return {};
  const std::string self = FileOf(kGlpkPlugin);
  const size_t folder = self.rfind('/');
  // If the library's folder is unknown, the path is made absolute, because a relative path would be
  // looked up in the program's working folder.
  return folder == std::string::npos ? std::string("/") + kGlpkPlugin
                                     : self.substr(0, folder + 1) + kGlpkPlugin;
}

}  // namespace

// Returns null if the driver does not report how much memory the device has. Also returns null if
// the segments of the workspace plan exceed that memory and UCUDNN_TOTAL_WORKSPACE is not set.
std::unique_ptr<WorkspaceBudget> Budgets::Make(const tuning::Device& device,
                                               const planning::WorkspacePlan* workspace_plan) {
  const cuda::RelaxedCaptureScope relaxed(*device.driver);
  size_t budget = rules_.KernelPart(options_.total_workspace ? *options_.total_workspace
                                                             : *workspace_plan->total_bytes);
  size_t free_bytes = 0, device_bytes = 0;
  if (device.driver->cuMemGetInfo(&free_bytes, &device_bytes) != CUDA_SUCCESS) return nullptr;
  if (workspace_plan != nullptr && workspace_plan->reserved_bytes > device_bytes) {
    followed_plan_.Ignore("its segments take " + FormatByteSize(workspace_plan->reserved_bytes) +
                          ", and the device has " + FormatByteSize(device_bytes));
    workspace_plan = nullptr;
    if (!options_.total_workspace) return nullptr;
  }
  if (budget > device_bytes) {
    WarnOnce("budget", "the total workspace of " + FormatByteSize(budget) +
                           " is more than the device has: " + FormatByteSize(device_bytes) +
                           " are planned with");
    budget = device_bytes;
  }
  return std::make_unique<WorkspaceBudget>(*device.driver, device.context, budget,
                                           options_.division, SolverPath(options_), workspace_plan);
}

WorkspaceBudget* Budgets::Of(const tuning::Device& device) {
  if (options_.mode != Mode::kOn) return nullptr;
  const cuda::ContextScope scope(*device.driver, device.context);
  const planning::WorkspacePlan* workspace_plan = nullptr;
  if (!options_.workspace_plan.empty()) workspace_plan = followed_plan_.For(device.platform);
  const bool divided = workspace_plan != nullptr && workspace_plan->total_bytes;
  if (!options_.total_workspace && !divided) return nullptr;
  CUdevice number = 0;
  if (device.driver->cuCtxGetDevice(&number) != CUDA_SUCCESS) return nullptr;
  MutexLock lock(mutex_);
  auto known = budgets_.find(number);
  if (known == budgets_.end()) {
    std::unique_ptr<WorkspaceBudget> made = Make(device, workspace_plan);
    if (made == nullptr) return nullptr;
    known = budgets_.emplace(number, std::move(made)).first;
    NoteBudget(*known->second);
  }
  WorkspaceBudget& budget = *known->second;
  if (budget.context() == device.context) return &budget;
  WarnOnce("contexts", "a second context on one device has no part in the total workspace");
  return nullptr;
}

std::pair<WorkspaceBudget*, uint64_t> Budgets::Leave(const void* handle, const void* lane) {
  MutexLock lock(mutex_);
  for (const auto& [device, budget] : budgets_) {
    if (const uint64_t leave = budget->Close(handle, lane); leave > 0) return {budget.get(), leave};
  }
  return {};
}

void Budgets::NoteBudget(const WorkspaceBudget& budget) {
  ReportedBudget told = budget.summary();
  told.total_bytes = options_.total_workspace.value_or(budget.budget_bytes());
  told.division = WorkspaceDivisionName(budget.division());
  reporter_.report().SetBudget(&budget, told);
}

void Budgets::NoteAll() {
  MutexLock lock(mutex_);
  for (const auto& [device, budget] : budgets_) NoteBudget(*budget);
}

void Budgets::Follow(const BudgetKernel& kernel, Session& session, cudnnHandle_t handle) noexcept {
  WorkspaceBudget& budget = *session.budget();
  const bool learning = budget.learning();
  if (!learning && !budget.waiting()) return;
  try {
    if (session.Capturing()) return;
    const cuda::ContextScope scope(session.driver(), session.context());
    if (budget.waiting()) budget.SettleNow();
    if (!learning) return;
    const auto owner = OwnerOf(session, handle);
    if (!owner) return;
    const KernelSequence::Progress known = budget.Run(kernel, *owner);
    if (known != KernelSequence::Progress::kNotYet) Divide(budget, session, handle, known);
  } catch (...) {
    if (!learning) return;  // a later call completes the division
    WarnOnce("memory", "out of host memory: the total workspace is not divided");
    budget.Stop();
  }
}

std::optional<planning::BudgetShare> Budgets::ShareOf(const BudgetKernel& kernel,
                                                      const Session& session, cudnnHandle_t handle,
                                                      OwnedPart& part) const {
  WorkspaceBudget* const budget = session.budget();
  if (budget == nullptr) return std::nullopt;
  const cuda::ContextScope scope(session.driver(), session.context());
  const auto owner = OwnerOf(session, handle);
  if (!owner) return std::nullopt;
  const WorkspaceBudget::Share share = budget->ShareOf(kernel, *owner);
  part.kernel = share.kernel;
  return planning::BudgetShare{share.bytes, rules_.LimitOf(*budget)};
}

Status Budgets::EndRecording(Session& session, cudnnHandle_t handle) {
  WorkspaceBudget* const budget = session.budget();
  if (budget == nullptr) return Status::Ok();
  if (session.Capturing()) return Status::Error("the handle's stream is captured");
  const cuda::ContextScope scope(session.driver(), session.context());
  try {
    UCUDNN_ASSIGN_OR_RETURN(const KernelSequence::Progress known, budget->EndLearning());
    if (known != KernelSequence::Progress::kNotYet) Divide(*budget, session, handle, known);
    return Status::Ok();
  } catch (...) {
    budget->Stop();
    throw;
  }
}

size_t Budgets::PartOf(const WorkspaceBudget& budget,
                       const std::vector<BudgetKernel>& kernels) const {
  std::set<int> lanes;
  size_t parts = 0;
  for (const BudgetKernel& kernel : kernels) {
    lanes.insert(kernel.use.lanes.begin(), kernel.use.lanes.end());
    parts += kernel.use.lanes.size();
  }
  if (budget.division() != WorkspaceDivision::kDisjoint) parts = lanes.size();
  return rules_.LimitOf(budget) / std::max<size_t>(parts, 1);
}

void Budgets::Divide(WorkspaceBudget& budget, Session& session, cudnnHandle_t handle,
                     KernelSequence::Progress known) {
  const std::vector<BudgetKernel> kernels = budget.Kernels();
  const size_t part_bytes = PartOf(budget, kernels);
  std::vector<std::vector<Configuration>> choices;
  for (const BudgetKernel& met : kernels) {
    const bool legacy = met.api == Api::kLegacy;
    // Applications make many plans only to choose among them. Most of these plans never run, so
    // they are not measured.
    const bool may_run = legacy || known == KernelSequence::Progress::kRepeated;
    const bool may_measure = may_run && rules_.Tunes(session, met.problem, met.api);
    DivisionChoices& api = legacy ? *legacy_ : *graph_;
    choices.push_back(api.ChoicesOf({met, session, handle, may_measure, part_bytes}));
    if (choices.back().empty() && may_run && !api.IsAssured(met, session)) {
      reporter_.Fallback(met.problem, planning::FallbackCause::kNoShare);
    }
  }
  if (const Status status = budget.Divide(kernels, std::move(choices), known); !status.ok()) {
    WarnOnce("division", "the total workspace is not divided: " + status.message());
    budget.Stop();
    return;
  }
  // Every kernel that runs was measured, so the devices that helped to measure are released.
  if (known == KernelSequence::Progress::kRepeated) kernels_.ReleaseHelpers();
  const WorkspaceBudget::Summary summary = budget.summary();
  NoteBudget(budget);
  if (!summary.divided) return;
  Log(LogLevel::kInfo, FormatByteSize(summary.planned_bytes) + " of workspace divided among " +
                           std::to_string(summary.kernels) + " kernels (" +
                           WorkspaceDivisionName(options_.division) + "): they may use " +
                           FormatByteSize(summary.shares_bytes));
  if (!summary.asked_only && summary.shares_bytes == 0) {
    WarnOnce("budget", "the total workspace of " + FormatByteSize(summary.planned_bytes) +
                           " makes no kernel faster: all run without");
  }
}

}  // namespace ucudnn::interposer

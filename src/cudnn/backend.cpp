#include "cudnn/backend.h"

#include <algorithm>

namespace ucudnn::cudnn {
namespace {

// Returns a copy of the descriptor that `from` holds as attribute `name`. ucudnn creates the copy,
// and cuDNN fills it.
Result<BackendDescriptor> Part(const Functions& functions, cudnnBackendDescriptor_t from,
                               cudnnBackendAttributeName_t name,
                               cudnnBackendDescriptorType_t type) {
  UCUDNN_ASSIGN_OR_RETURN(BackendDescriptor part, BackendDescriptor::Create(functions, type));
  cudnnBackendDescriptor_t filled = part.get();
  int64_t count = 0;
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions,
                  functions.cudnnBackendGetAttribute(from, name, CUDNN_TYPE_BACKEND_DESCRIPTOR, 1,
                                                     &count, &filled),
                  "reading a part of a plan"));
  return part;
}

template <typename Note, int kMost>
Result<std::vector<int>> Notes(const Functions& functions, cudnnBackendDescriptor_t engine,
                               cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type) {
  Note notes[kMost] = {};
  int64_t count = 0;
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions, functions.cudnnBackendGetAttribute(engine, name, type, kMost, &count, notes),
      "reading an engine's notes"));
  // Only the first kMost notes were read. If the engine has more, the others are unknown.
  if (count > kMost) return Status::Error("an engine has unknown notes");
  std::vector<int> numbers;
  for (int64_t i = 0; i < count; ++i) numbers.push_back(static_cast<int>(notes[i]));
  std::sort(numbers.begin(), numbers.end());
  return numbers;
}

// Returns the end of the JSON object that begins at `begin`; npos if it does not end.
size_t ObjectEnd(std::string_view json, size_t begin) {
  int depth = 0;
  for (size_t at = begin; at < json.size(); ++at) {
    if (json[at] == '"') {
      for (++at; at < json.size() && json[at] != '"'; ++at) at += json[at] == '\\';
    } else if (json[at] == '{') {
      ++depth;
    } else if (json[at] == '}' && --depth == 0) {
      return at + 1;
    }
  }
  return std::string_view::npos;
}

void LeaveOutPayload(std::string& json) {
  constexpr std::string_view kMark = "\"payload\":";
  const size_t at = json.find(kMark);
  if (at == std::string::npos) return;
  const size_t begin = at + kMark.size();
  const size_t end = ObjectEnd(json, begin);
  if (json.compare(begin, 1, "{") == 0 && end != std::string::npos) {
    json.replace(begin, end - begin, "{}");
  }
}

}  // namespace

Result<BackendDescriptor> BackendDescriptor::Create(const Functions& functions,
                                                    cudnnBackendDescriptorType_t type) {
  BackendDescriptor created;
  created.functions_ = &functions;
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions, functions.cudnnBackendCreateDescriptor(type, &created.descriptor_),
                  "creating a descriptor"));
  return created;
}

void BackendDescriptor::Reset() {
  if (descriptor_ != nullptr) functions_->cudnnBackendDestroyDescriptor(descriptor_);
  descriptor_ = nullptr;
}

Status BackendDescriptor::Set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                              int64_t count, const void* values) {
  return CudnnStatus(*functions_,
                     functions_->cudnnBackendSetAttribute(descriptor_, name, type, count, values),
                     "setting an attribute");
}

Status BackendDescriptor::Finalize() {
  return CudnnStatus(*functions_, functions_->cudnnBackendFinalize(descriptor_),
                     "finalizing a descriptor");
}

Result<BackendDescriptor> BuildPlan(const Functions& functions, const PlanDevice& device,
                                    std::string_view json) {
  UCUDNN_ASSIGN_OR_RETURN(
      BackendDescriptor plan,
      BackendDescriptor::Create(functions, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR));
  if (device.handle != nullptr) {
    UCUDNN_RETURN_IF_ERROR(
        plan.Set(CUDNN_ATTR_EXECUTION_PLAN_HANDLE, CUDNN_TYPE_HANDLE, 1, &device.handle));
  } else if (device.properties != nullptr) {
    UCUDNN_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP,
                                    CUDNN_TYPE_BACKEND_DESCRIPTOR, 1, &device.properties));
  } else {
    return Status::Error("a plan needs a device");
  }
  UCUDNN_RETURN_IF_ERROR(plan.Set(CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                                  static_cast<int64_t>(json.size()), json.data()));
  UCUDNN_RETURN_IF_ERROR(plan.Finalize());
  return plan;
}

Result<std::string> PlanJson(const Functions& functions, cudnnBackendDescriptor_t plan) {
  int64_t bytes = 0;
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions,
      functions.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, 0, &bytes, nullptr),
      "asking for a plan's JSON"));
  constexpr int64_t kMostBytes = 1 << 24;
  if (bytes < 1 || bytes > kMostBytes) return Status::Error("a plan has no JSON of a usual size");
  std::string json(static_cast<size_t>(bytes), '\0');
  UCUDNN_RETURN_IF_ERROR(CudnnStatus(
      functions,
      functions.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_JSON_REPRESENTATION,
                                         CUDNN_TYPE_CHAR, bytes, &bytes, json.data()),
      "reading a plan's JSON"));
  // Some releases of cuDNN count the terminating zero as part of the JSON.
  json.resize(std::min(json.size(), json.find('\0')));
  LeaveOutPayload(json);
  return json;
}

Result<size_t> PlanWorkspace(const Functions& functions, cudnnBackendDescriptor_t plan) {
  int64_t bytes = 0, count = 0;
  UCUDNN_RETURN_IF_ERROR(
      CudnnStatus(functions,
                  functions.cudnnBackendGetAttribute(plan, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE,
                                                     CUDNN_TYPE_INT64, 1, &count, &bytes),
                  "asking for a plan's workspace"));
  if (bytes < 0) return Status::Error("a plan needs a negative workspace");
  return static_cast<size_t>(bytes);
}

bool EngineNotes::Has(cudnnBackendNumericalNote_t note) const {
  return std::find(numerical.begin(), numerical.end(), note) != numerical.end();
}

Result<EngineNotes> ReadNotes(const Functions& functions, cudnnBackendDescriptor_t plan) {
  UCUDNN_ASSIGN_OR_RETURN(const BackendDescriptor configuration,
                          Part(functions, plan, CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG,
                               CUDNN_BACKEND_ENGINECFG_DESCRIPTOR));
  return ConfigurationNotes(functions, configuration.get());
}

Result<EngineNotes> ConfigurationNotes(const Functions& functions,
                                       cudnnBackendDescriptor_t configuration) {
  UCUDNN_ASSIGN_OR_RETURN(
      const BackendDescriptor engine,
      Part(functions, configuration, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_BACKEND_ENGINE_DESCRIPTOR));
  EngineNotes notes;
  UCUDNN_ASSIGN_OR_RETURN(
      notes.numerical,
      (Notes<cudnnBackendNumericalNote_t, CUDNN_NUMERICAL_NOTE_TYPE_COUNT>(
          functions, engine.get(), CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE)));
  UCUDNN_ASSIGN_OR_RETURN(
      notes.behavior,
      (Notes<cudnnBackendBehaviorNote_t, CUDNN_BEHAVIOR_NOTE_TYPE_COUNT>(
          functions, engine.get(), CUDNN_ATTR_ENGINE_BEHAVIOR_NOTE, CUDNN_TYPE_BEHAVIOR_NOTE)));
  return notes;
}

cudnnStatus_t MakePack(const Functions& functions, const PackOperands& operands,
                       cudnnBackendDescriptor_t& pack) {
  cudnnStatus_t status =
      functions.cudnnBackendCreateDescriptor(CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR, &pack);
  if (status != CUDNN_STATUS_SUCCESS) {
    pack = nullptr;
    return status;
  }
  const auto count = static_cast<int64_t>(operands.uids.size());
  const auto set = [&](cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                       int64_t elements, const void* values) {
    if (status == CUDNN_STATUS_SUCCESS) {
      status = functions.cudnnBackendSetAttribute(pack, name, type, elements, values);
    }
  };
  set(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, count, operands.pointers.data());
  set(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, count, operands.uids.data());
  set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, 1, &operands.workspace);
  return status == CUDNN_STATUS_SUCCESS ? functions.cudnnBackendFinalize(pack) : status;
}

}  // namespace ucudnn::cudnn

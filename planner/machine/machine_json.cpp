#include "planner/machine/machine_json.h"

#include <limits>
#include <string>
#include <utility>
#include <vector>

#include "base/json_value.h"
#include "base/text.h"

namespace ucudnn::planner {
namespace {

constexpr const char* kMachineFormat = "ucudnn-machine";
constexpr int kMachineVersion = 1;

// Reads the members of one object. A member for which the caller never asked is a fault. Keeps the
// first fault. If the object lacks an optional member, the caller's value stays unchanged.
class Members {
 public:
  Members(const JsonValue& object, std::string place, Status& fault)
      : object_(object), place_(std::move(place)), fault_(fault) {
    if (!object.is(JsonValue::Kind::kObject)) Fault("is no object");
  }
  Members(const Members&) = delete;
  Members& operator=(const Members&) = delete;
  ~Members() {
    for (const JsonMember& member : object_.members) {
      if (NearestName(member.name, known_) != member.name) {
        Fault("has the unknown member " + Quoted(member.name) + "; expected " + Join(known_, ", "));
      }
    }
  }

  std::string Text(const char* name) {
    const JsonValue* member = Member(name);
    if (member == nullptr) return "";
    if (!member->is(JsonValue::Kind::kText)) Fault(std::string(name) + " is no text");
    return member->text;
  }
  double Real(const char* name) {
    const JsonValue* member = Member(name);
    if (member == nullptr) return 0;
    if (!member->is_number()) Fault(std::string(name) + " is no number");
    return member->real;
  }
  int64_t Integer(const char* name, int64_t most) {
    const JsonValue* member = Member(name);
    if (member == nullptr) return 0;
    if (!member->is(JsonValue::Kind::kInteger) || member->integer < 0 || member->integer > most) {
      Fault(std::string(name) + " is no whole number from 0 to " + std::to_string(most));
    }
    return member->integer;
  }
  void ReadOptional(const char* name, double& value) {
    if (object_.Find(name) == nullptr) {
      known_.emplace_back(name);
    } else {
      value = Real(name);
    }
  }
  void ReadOptional(const char* name, int& value) {
    if (object_.Find(name) == nullptr) {
      known_.emplace_back(name);
    } else {
      value = static_cast<int>(Integer(name, std::numeric_limits<int32_t>::max()));
    }
  }
  const JsonValue& Value(const char* name) {
    static const JsonValue* const kNone = new JsonValue;
    const JsonValue* member = Member(name);
    return member == nullptr ? *kNone : *member;
  }
  void Fault(const std::string& what) {
    if (fault_.ok()) fault_ = Status::Error(place_ + " " + what);
  }

 private:
  const JsonValue* Member(const char* name) {
    known_.emplace_back(name);
    const JsonValue* member = object_.Find(name);
    if (member == nullptr) Fault(std::string("has no ") + name);
    return member;
  }

  const JsonValue& object_;
  const std::string place_;
  Status& fault_;
  std::vector<std::string> known_;
};

void ReadDevice(const JsonValue& json, Machine& machine, Status& fault) {
  Members members(json, "device", fault);
  machine.device.name = members.Text("name");
  machine.device.memory_bytes = members.Integer("memory_bytes", int64_t{1} << 62);
  machine.device.tflops = members.Real("tflops");
  machine.device.memory_gb_per_s = members.Real("memory_gb_per_s");
  members.ReadOptional("launch_us", machine.device.launch_us);
  members.ReadOptional("kernel_us", machine.device.kernel_us);
  members.ReadOptional("filling_threads", machine.device.filling_threads);
  members.ReadOptional("concurrent_kernels", machine.device.concurrent_kernels);
}

void ReadLevel(const JsonValue& json, Machine& machine, Status& fault) {
  Members members(json, "level " + std::to_string(machine.levels.size() + 1), fault);
  Level level;
  level.name = members.Text("name");
  level.count = static_cast<int>(members.Integer("count", std::numeric_limits<int32_t>::max()));
  level.gb_per_s = members.Real("gb_per_s");
  level.latency_us = members.Real("latency_us");
  machine.levels.push_back(std::move(level));
}

Machine Read(const JsonValue& json, Status& fault) {
  Machine machine;
  Members members(json, "machine", fault);
  const std::string format = members.Text("format");
  if (format != kMachineFormat) {
    members.Fault("has format " + Quoted(format) + "; expected " + kMachineFormat);
  }
  const int64_t version = members.Integer("version", std::numeric_limits<int32_t>::max());
  if (version != kMachineVersion) {
    members.Fault("has version " + std::to_string(version) + "; expected " +
                  std::to_string(kMachineVersion));
  }
  machine.name = members.Text("name");
  ReadDevice(members.Value("device"), machine, fault);
  const JsonValue& levels = members.Value("levels");
  if (!levels.is(JsonValue::Kind::kArray)) members.Fault("has no list of levels");
  for (const JsonValue& level : levels.items) ReadLevel(level, machine, fault);
  return machine;
}

}  // namespace

Result<Machine> ParseMachine(std::string_view json) {
  const Result<JsonValue> root = ParseJson(json);
  if (!root.ok()) return Status::Error(root.message() + "; expected a machine (ucudnn-machine)");
  Status fault;
  Machine machine = Read(*root, fault);
  UCUDNN_RETURN_IF_ERROR(fault);
  UCUDNN_RETURN_IF_ERROR(Check(machine));
  return machine;
}

}  // namespace ucudnn::planner

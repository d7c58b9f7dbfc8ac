#include "cudnn/plan_json.h"

#include <algorithm>

#include "base/text.h"

namespace ucudnn::cudnn::plan_json {
namespace {

using Kind = JsonValue::Kind;

constexpr int64_t kMaxAlignment = 1 << 16;

bool IsPacked(const Tensor& tensor, Layout layout, bool exactly) {
  Spatial extents = {1, 1, 1};
  const size_t rank = tensor.dims.size() - 2;
  for (size_t i = 0; i < rank; ++i) {
    extents[kMaxSpatial - rank + i] = static_cast<int32_t>(tensor.dims[2 + i]);
  }
  const Strides packed = PackedStrides(layout, tensor.dims[1], extents);
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    const int64_t expected = i < 2 ? packed[i] : packed[kMaxSpatial - rank + i];
    const bool counts = exactly || tensor.dims[i] > 1;
    if (counts && tensor.strides[i] != expected) return false;
  }
  return true;
}

}  // namespace

Status Unfamiliar(const std::string& what) { return Status::Error("unfamiliar plan: " + what); }

Status OnlyKnown(const JsonValue& value, const char* what,
                 std::initializer_list<std::string_view> known) {
  if (!value.is(Kind::kObject)) return Unfamiliar(std::string(what) + " is no object");
  for (const auto& [name, member] : value.members) {
    if (std::find(known.begin(), known.end(), name) == known.end()) {
      return Unfamiliar(std::string(what) + " has '" + name + "'");
    }
  }
  return Status::Ok();
}

Result<const JsonValue*> Member(const JsonValue& object, const char* name, Kind kind) {
  const JsonValue* const member = object.Find(name);
  const bool right =
      member != nullptr && (member->is(kind) || (kind == Kind::kReal && member->is_number()));
  if (!right) return Unfamiliar(std::string("'") + name + "' is missing or of another type");
  return member;
}

Status Fixed(const JsonValue& object, const char* name, std::string_view value) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* member, Member(object, name, Kind::kText));
  return member->text == value ? Status::Ok()
                               : Unfamiliar(std::string(name) + " is " + member->text);
}
Status Fixed(const JsonValue& object, const char* name, int64_t value) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* member, Member(object, name, Kind::kInteger));
  return member->integer == value
             ? Status::Ok()
             : Unfamiliar(std::string(name) + " is " + std::to_string(member->integer));
}

Result<std::vector<int64_t>> Integers(const JsonValue& object, const char* name) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* member, Member(object, name, Kind::kArray));
  std::vector<int64_t> integers;
  integers.reserve(member->items.size());
  for (const JsonValue& item : member->items) {
    if (!item.is(Kind::kInteger)) return Unfamiliar(std::string(name) + " holds no integers");
    integers.push_back(item.integer);
  }
  return integers;
}

Result<DataType> Type(const JsonValue& object, const char* name) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* member, Member(object, name, Kind::kText));
  if (member->text == "CUDNN_DATA_FLOAT") return DataType::kFloat;
  if (member->text == "CUDNN_DATA_HALF") return DataType::kHalf;
  if (member->text == "CUDNN_DATA_BFLOAT16") return DataType::kBfloat16;
  if (member->text == "CUDNN_DATA_DOUBLE") return DataType::kDouble;
  return Unfamiliar(std::string(name) + " is " + member->text);
}

Result<double> Number(const JsonValue& object, const char* name) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* member, Member(object, name, Kind::kReal));
  return member->real;
}

Result<Tensor> ReadTensor(const JsonValue& value) {
  UCUDNN_RETURN_IF_ERROR(OnlyKnown(value, "a tensor",
                                   {"name", "dataType", "dim", "stride", "isVirtual", "isByValue",
                                    "vectCount", "vectDim", "ptrAlignment", "reordering"}));
  Tensor tensor;
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* name, Member(value, "name", Kind::kText));
  if (!ReadNumber(name->text, tensor.uid)) return Unfamiliar("a tensor is called " + name->text);
  UCUDNN_ASSIGN_OR_RETURN(tensor.type, Type(value, "dataType"));
  UCUDNN_ASSIGN_OR_RETURN(tensor.dims, Integers(value, "dim"));
  UCUDNN_ASSIGN_OR_RETURN(tensor.strides, Integers(value, "stride"));
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* is_virtual, Member(value, "isVirtual", Kind::kBoolean));
  tensor.is_virtual = is_virtual->boolean;
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* by_value, Member(value, "isByValue", Kind::kBoolean));
  if (by_value->boolean) return Unfamiliar("a tensor is passed by value");
  UCUDNN_RETURN_IF_ERROR(Fixed(value, "vectCount", 1));
  UCUDNN_RETURN_IF_ERROR(Fixed(value, "vectDim", -1));
  UCUDNN_RETURN_IF_ERROR(Fixed(value, "reordering", "CUDNN_TENSOR_REORDERING_NONE"));
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* alignment,
                          Member(value, "ptrAlignment", Kind::kInteger));
  tensor.alignment = alignment->integer;
  if (tensor.alignment < 1 || tensor.alignment > kMaxAlignment) {
    return Unfamiliar("an alignment of " + std::to_string(tensor.alignment));
  }
  if (tensor.dims.size() != tensor.strides.size()) return Unfamiliar("dim and stride differ");
  for (size_t i = 0; i < tensor.dims.size(); ++i) {
    if (tensor.dims[i] < 1 || tensor.dims[i] > kMaxExtent) return Unfamiliar("an extent");
    if (tensor.strides[i] < 1) return Unfamiliar("a tensor stride is not positive");
  }
  return tensor;
}

Result<int> FindTensor(const std::vector<Tensor>& tensors, const JsonValue& node, const char* role,
                       uint64_t& used) {
  UCUDNN_ASSIGN_OR_RETURN(const JsonValue* name, Member(node, role, Kind::kText));
  for (size_t i = 0; i < tensors.size(); ++i) {
    if (std::to_string(tensors[i].uid) != name->text) continue;
    used |= uint64_t{1} << i;
    return static_cast<int>(i);
  }
  return Unfamiliar("there is no tensor " + name->text);
}

Result<Layout> FilterLayout(const Tensor& tensor) {
  for (const bool exactly : {true, false}) {
    for (const Layout layout : {Layout::kNchw, Layout::kNhwc}) {
      if (IsPacked(tensor, layout, exactly)) return layout;
    }
  }
  return Status::Error("the filter is not packed");
}

bool IsBatchLeading(const Tensor& tensor) {
  int64_t last = 0;
  for (size_t i = 1; i < tensor.dims.size(); ++i) {
    last += (tensor.dims[i] - 1) * tensor.strides[i];
  }
  return tensor.strides[0] > last;
}

Strides Widen(const Tensor& tensor) {
  const std::vector<int64_t>& s = tensor.strides;
  if (s.size() == 5) return {s[0], s[1], s[2], s[3], s[4]};
  return {s[0], s[1], s[2] * tensor.dims[2], s[2], s[3]};
}

Status ReadSpatial(const JsonValue& node, const char* name, int rank, int64_t least, int64_t most,
                   Spatial& to) {
  UCUDNN_ASSIGN_OR_RETURN(const std::vector<int64_t> values, Integers(node, name));
  if (static_cast<int>(values.size()) != rank) return Unfamiliar(std::string(name) + "'s rank");
  for (int i = 0; i < rank; ++i) {
    if (values[i] < least || values[i] > most) return Unfamiliar(std::string(name) + "'s extent");
    to[kMaxSpatial - rank + i] = static_cast<int32_t>(values[i]);
  }
  return Status::Ok();
}

}  // namespace ucudnn::cudnn::plan_json

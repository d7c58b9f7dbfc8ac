#include "mutate.h"

#include <algorithm>
#include <cctype>
#include <limits>
#include <utility>

#include "onnx.pb.h"

namespace ucudnn::fuzz {
namespace {

using ucudnn::onnx::AttributeProto;
using ucudnn::onnx::GraphProto;
using ucudnn::onnx::ModelProto;
using ucudnn::onnx::NodeProto;

bool IsDigit(char c) { return std::isdigit(static_cast<unsigned char>(c)) != 0; }

size_t Place(const std::string& bytes, Random& random) {
  return static_cast<size_t>(random.Between(0, static_cast<int64_t>(bytes.size())));
}

// Returns a part of `bytes`; short parts are more frequent than long ones.
std::string Part(const std::string& bytes, Random& random) {
  const size_t begin = Place(bytes, random);
  const auto most = static_cast<int64_t>(bytes.size() - begin);
  return bytes.substr(begin, static_cast<size_t>(random.Between(
                                 0, random.Chance(80) ? std::min<int64_t>(most, 64) : most)));
}

// Replaces a number in a text by a number that a reader may mishandle.
void ChangeNumber(std::string& bytes, Random& random) {
  size_t begin = Place(bytes, random);
  while (begin < bytes.size() && !IsDigit(bytes[begin])) ++begin;
  size_t end = begin;
  while (end < bytes.size() && IsDigit(bytes[end])) ++end;
  const std::string number = random.OneOf<std::string>(
      {"0", "-1", "1", "2", "3", "7", "255", "65536", "2147483647", "-2147483648", "4294967296",
       "9223372036854775807", "1e9", "0.5", "1e999", "nan"});
  bytes.replace(begin, end - begin, number);
}

bool IsWordCharacter(char c) {
  return std::isalnum(static_cast<unsigned char>(c)) != 0 || c == '_';
}

// Finds the first word at or after a random place. Returns where the word begins and ends.
std::pair<size_t, size_t> Word(const std::string& bytes, Random& random) {
  size_t begin = Place(bytes, random);
  while (begin < bytes.size() && !IsWordCharacter(bytes[begin])) ++begin;
  size_t end = begin;
  while (end < bytes.size() && IsWordCharacter(bytes[end])) ++end;
  return {begin, end};
}

// Replaces a word, such as a type or a name, by another word of the file.
void ChangeWord(std::string& bytes, Random& random) {
  const auto [from, from_end] = Word(bytes, random);
  const auto [to, to_end] = Word(bytes, random);
  bytes.replace(to, to_end - to, bytes.substr(from, from_end - from));
}

// Replaces a byte. In half of the cases the new byte has a special meaning, either in the numbers
// of protocol buffers or as a bracket, quote or separator of a text format.
void ChangeByte(std::string& bytes, Random& random) {
  const size_t at = Place(bytes, random);
  if (at == bytes.size()) return;
  bytes[at] = random.Chance(50)
                  ? random.OneOf<char>({'\0', '\1', '\2', '\3', '\x7f', '\x80', '\xff', '\n', '"',
                                        '{', '}', '[', ']', ':', ',', '#'})
                  : static_cast<char>(random.Between(0, 255));
}

int64_t EdgeNumber(Random& random) {
  return random.OneOf<int64_t>({-1, 0, 1, 2, 3, 4, 64, 1 << 16, std::numeric_limits<int32_t>::max(),
                                std::numeric_limits<int32_t>::min(), int64_t{1} << 32,
                                std::numeric_limits<int64_t>::max(),
                                std::numeric_limits<int64_t>::min()});
}

template <typename Repeated>
auto* AnyOf(Repeated* values, Random& random) {
  return values->Mutable(static_cast<int>(random.Between(0, values->size() - 1)));
}

void ChangeAttribute(AttributeProto& attribute, Random& random) {
  if (attribute.has_i()) attribute.set_i(EdgeNumber(random));
  if (attribute.has_f()) attribute.set_f(static_cast<float>(EdgeNumber(random)));
  if (attribute.ints_size() > 0) *AnyOf(attribute.mutable_ints(), random) = EdgeNumber(random);
  if (random.Chance(10)) attribute.add_ints(EdgeNumber(random));
  if (random.Chance(5)) attribute.set_name("auto_pad");
  if (random.Chance(5)) attribute.set_s("SAME_LOWER");
}

// Changes `node`: copies the operator, an input or everything from `other`, or adds or removes an
// input.
void ChangeNode(NodeProto& node, const NodeProto& other, Random& random) {
  switch (random.Between(0, 4)) {
    case 0:
      node.set_op_type(other.op_type());
      break;
    case 1:
      if (node.input_size() > 0 && other.output_size() > 0) {
        *AnyOf(node.mutable_input(), random) = other.output(0);
      }
      break;
    case 2:
      if (other.input_size() > 0) node.add_input(other.input(other.input_size() - 1));
      break;
    case 3:
      if (node.input_size() > 0) node.mutable_input()->RemoveLast();
      break;
    default:
      node = other;
  }
}

}  // namespace

std::string MutateOnnx(const std::string& bytes, Random& random) {
  ModelProto model;
  if (!model.ParseFromString(bytes)) return bytes;
  GraphProto& graph = *model.mutable_graph();
  const int64_t changes = random.Between(1, 4);
  for (int64_t i = 0; i < changes && graph.node_size() > 0; ++i) {
    NodeProto& node = *AnyOf(graph.mutable_node(), random);
    const int64_t kind = random.Between(0, 5);
    if (kind <= 1) {
      ChangeNode(node, *AnyOf(graph.mutable_node(), random), random);
    } else if (kind <= 3 && node.attribute_size() > 0) {
      ChangeAttribute(*AnyOf(node.mutable_attribute(), random), random);
    } else if (kind == 4 && graph.initializer_size() > 0) {
      auto& tensor = *AnyOf(graph.mutable_initializer(), random);
      if (tensor.dims_size() > 0) *AnyOf(tensor.mutable_dims(), random) = EdgeNumber(random);
      if (tensor.int64_data_size() > 0) {
        *AnyOf(tensor.mutable_int64_data(), random) = EdgeNumber(random);
      }
    } else if (graph.input_size() > 0) {
      auto& shape = *graph.mutable_input(0)->mutable_type()->mutable_tensor_type()->mutable_shape();
      if (shape.dim_size() > 0)
        AnyOf(shape.mutable_dim(), random)->set_dim_value(EdgeNumber(random));
    }
  }
  return model.SerializeAsString();
}

std::string Mutate(std::string bytes, const std::string& other, Random& random) {
  constexpr size_t kLargest = 200'000;
  const int64_t changes = random.Chance(60) ? 1 : random.Between(2, 8);
  for (int64_t i = 0; i < changes; ++i) {
    const int64_t kind = random.Between(0, 11);
    if (kind <= 3) {
      ChangeNumber(bytes, random);
    } else if (kind <= 5) {
      ChangeWord(bytes, random);
    } else if (kind == 6) {
      ChangeByte(bytes, random);
    } else if (kind == 7) {
      if (const size_t at = Place(bytes, random); at < bytes.size()) {
        bytes[at] = static_cast<char>(bytes[at] ^ (1 << random.Between(0, 7)));
      }
    } else if (kind == 8) {
      bytes.erase(Place(bytes, random), static_cast<size_t>(random.Between(0, 40)));
    } else if (kind == 9) {
      bytes.insert(Place(bytes, random), Part(bytes, random));
    } else if (kind == 10) {
      bytes.insert(Place(bytes, random), Part(other, random));
    } else if (random.Chance(20)) {
      bytes.resize(Place(bytes, random));
    }
    if (bytes.size() > kLargest) bytes.resize(kLargest);
  }
  return bytes;
}

}  // namespace ucudnn::fuzz

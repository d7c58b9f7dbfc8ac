#include "tests/support/made_file.h"

#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

namespace ucudnn::test {

MadeFile::MadeFile(std::string_view bytes) : descriptor_(memfd_create("made", MFD_CLOEXEC)) {
  while (!bytes.empty()) {
    const ssize_t length = write(descriptor_, bytes.data(), bytes.size());
    if (length <= 0) std::abort();
    bytes.remove_prefix(static_cast<size_t>(length));
  }
}

MadeFile::~MadeFile() { close(descriptor_); }

std::string MadeFile::path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }

std::string SafetensorsOf(const std::vector<MadeArray>& arrays) {
  nlohmann::ordered_json header = nlohmann::ordered_json::object();
  std::string values;
  for (const MadeArray& array : arrays) {
    header[array.name] = {{"dtype", array.dtype},
                          {"shape", array.shape},
                          {"data_offsets", {values.size(), values.size() + array.bytes.size()}}};
    values += array.bytes;
  }
  return SafetensorsOf(header.dump(), values);
}

std::string SafetensorsOf(std::string_view header, std::string_view values) {
  std::string file(8, '\0');
  PutNumber(file, 0, 8, header.size());
  return file + std::string(header) + std::string(values);
}

MadeArray DoublesOf(const std::string& name, const std::vector<int64_t>& shape,
                    const std::vector<double>& values) {
  MadeArray array = {name, "F64", shape, std::string(values.size() * sizeof(double), '\0')};
  if (!values.empty()) std::memcpy(array.bytes.data(), values.data(), array.bytes.size());
  return array;
}

std::string GzipOf(std::string_view bytes) {
  z_stream zlib = {};
  deflateInit2(&zlib, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  std::string packed(deflateBound(&zlib, bytes.size()), '\0');
  zlib.next_in = const_cast<Bytef*>(reinterpret_cast<const Bytef*>(bytes.data()));
  zlib.avail_in = static_cast<uInt>(bytes.size());
  zlib.next_out = reinterpret_cast<Bytef*>(packed.data());
  zlib.avail_out = static_cast<uInt>(packed.size());
  deflate(&zlib, Z_FINISH);
  packed.resize(zlib.total_out);
  deflateEnd(&zlib);
  return packed;
}

void PutNumber(std::string& bytes, size_t at, size_t width, uint64_t number) {
  for (size_t i = 0; i < width; ++i) bytes[at + i] = static_cast<char>(number >> (8 * i));
}

}  // namespace ucudnn::test

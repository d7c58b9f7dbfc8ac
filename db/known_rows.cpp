#include "db/known_rows.h"

#include <utility>

#include "db/family.h"

namespace ucudnn::db {

KnownRows::Kind KnownRows::Add(const StoredMeasurement& row) {
  const MicroConfiguration& micro = row.measurement.micro;
  std::vector<std::string> key = {row.platform.device, std::to_string(row.platform.cudnn),
                                  std::to_string(row.platform.driver), micro.engine.Text(),
                                  std::to_string(micro.micro_batch)};
  for (std::string& text : FamilyTexts(row.problem)) key.push_back(std::move(text));
  const auto [known, added] = rows_.try_emplace(std::move(key), micro);
  if (added) return Kind::kNew;
  return known->second == micro ? Kind::kEqual : Kind::kDiffering;
}

}  // namespace ucudnn::db

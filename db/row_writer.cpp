#include "db/row_writer.h"

#include <cmath>
#include <limits>

#include "base/text.h"
#include "convolution/columns.h"
#include "db/family.h"
#include "db/promise_rows.h"
#include "db/schema.h"

namespace ucudnn::db {
namespace {

// Binds the family's id `kernel` and the platform to parameters 1 to 4.
void BindPlatform(Statement& statement, int64_t kernel, const planning::Platform& platform) {
  statement.Bind(1, kernel);
  statement.Bind(2, std::string_view(platform.device));
  statement.Bind(3, int64_t{platform.cudnn});
  statement.Bind(4, int64_t{platform.driver});
}

}  // namespace

Status CheckRow(const StoredMeasurement& row) {
  const MicroConfiguration& micro = row.measurement.micro;
  const auto refuse = [&](const std::string& what) {
    return Status::Error("a measurement of " + Describe(row.problem) +
                         " cannot be stored: " + what);
  };
  for (const std::string& text : {row.name, row.platform.device, micro.engine.Text()}) {
    if (text.find('\0') != std::string::npos) return refuse(Quoted(text) + " holds a NUL byte");
  }
  if (micro.engine.empty()) return refuse("its engine has no name");
  if (micro.micro_batch < 1) {
    return refuse("micro-batch " + std::to_string(micro.micro_batch) + "; expected 1 or more");
  }
  if (!std::isfinite(micro.time_ms) || micro.time_ms < 0) {
    return refuse("time " + std::to_string(micro.time_ms) + " ms; expected 0 or more");
  }
  if (micro.workspace_bytes > static_cast<size_t>(std::numeric_limits<int64_t>::max())) {
    return refuse("a workspace of " + std::to_string(micro.workspace_bytes) + " bytes");
  }
  if (row.measurement.samples < 0) {
    return refuse(std::to_string(row.measurement.samples) + " samples; expected 0 or more");
  }
  return Status::Ok();
}

Result<int64_t> RowWriter::Kernel(const ConvolutionProblem& problem) {
  const ConvolutionProblem family = KernelFamily(problem);
  if (id_ != 0 && family == family_) return id_;
  UCUDNN_ASSIGN_OR_RETURN(Statement find, connection_.Prepare(FindKernelSql()));
  UCUDNN_ASSIGN_OR_RETURN(id_, FindKernel(find, family));
  if (id_ == 0) {
    std::string marks = "?";
    for (size_t i = 1; i < FamilyColumns().size(); ++i) marks += ",?";
    UCUDNN_ASSIGN_OR_RETURN(
        Statement insert,
        connection_.Prepare("INSERT OR IGNORE INTO families(" + Join(FamilyColumns(), ",") +
                            ") VALUES(" + marks + ")"));
    BindFamily(insert, family);
    UCUDNN_RETURN_IF_ERROR(insert.Run());
    UCUDNN_ASSIGN_OR_RETURN(id_, FindKernel(find, family));
    if (id_ == 0) return Status::Error("the store took no kernel: " + Describe(family));
  }
  family_ = family;
  return id_;
}

Result<bool> RowWriter::Insert(const StoredMeasurement& row, Origin origin) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, Kernel(row.problem));
  const MicroConfiguration& micro = row.measurement.micro;
  UCUDNN_ASSIGN_OR_RETURN(
      Statement insert,
      connection_.Prepare("INSERT OR IGNORE INTO measurements(kernel, device, cudnn, driver, "
                          "engine, micro_batch, time_ms, workspace_bytes, deterministic, samples, "
                          "verified, name, n, imported) VALUES(?,?,?,?,?,?,?,?,?,?,?,?,?,?)"));
  BindPlatform(insert, kernel, row.platform);
  insert.Bind(5, micro.engine.Text());
  insert.Bind(6, int64_t{micro.micro_batch});
  insert.Bind(7, micro.time_ms);
  insert.Bind(8, static_cast<int64_t>(micro.workspace_bytes));
  insert.Bind(9, int64_t{micro.deterministic});
  insert.Bind(10, int64_t{row.measurement.samples});
  insert.Bind(11, int64_t{row.measurement.verified});
  insert.Bind(12, std::string_view(row.name));
  insert.Bind(13, int64_t{row.problem.n});
  insert.Bind(14, int64_t{origin == Origin::kImported});
  UCUDNN_RETURN_IF_ERROR(insert.Run());
  const bool is_new = connection_.Changes() > 0;
  if (origin == Origin::kMeasured && row.measurement.verified) {
    UCUDNN_RETURN_IF_ERROR(
        MarkVerified(row.problem, row.platform, micro.engine, micro.micro_batch));
  }
  return is_new;
}

Status RowWriter::MarkComplete(const ConvolutionProblem& problem,
                               const planning::Platform& platform, int micro_batch) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, Kernel(problem));
  UCUDNN_ASSIGN_OR_RETURN(
      Statement insert,
      connection_.Prepare("INSERT OR IGNORE INTO complete_sizes(kernel, device, cudnn, driver, "
                          "micro_batch) VALUES(?,?,?,?,?)"));
  BindPlatform(insert, kernel, platform);
  insert.Bind(5, int64_t{micro_batch});
  return insert.Run();
}

Status RowWriter::MarkVerified(const ConvolutionProblem& problem,
                               const planning::Platform& platform, const EngineId& engine,
                               int micro_batch) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, Kernel(problem));
  UCUDNN_ASSIGN_OR_RETURN(
      Statement insert,
      connection_.Prepare("INSERT OR IGNORE INTO verifications(kernel, device, cudnn, driver, "
                          "micro_batch, engine) VALUES(?,?,?,?,?,?)"));
  BindPlatform(insert, kernel, platform);
  insert.Bind(5, int64_t{micro_batch});
  insert.Bind(6, engine.Text());
  return insert.Run();
}

Status RowWriter::Note(const ConvolutionProblem& problem, const planning::Platform& platform,
                       const std::string& about, const std::string& note) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, Kernel(problem));
  UCUDNN_RETURN_IF_ERROR(MakeNotes(connection_));
  UCUDNN_ASSIGN_OR_RETURN(Statement insert,
                          connection_.Prepare("INSERT OR REPLACE INTO notes(kernel, device, cudnn, "
                                              "driver, n, about, note) VALUES(?,?,?,?,?,?,?)"));
  BindPlatform(insert, kernel, platform);
  insert.Bind(5, int64_t{problem.n});
  insert.Bind(6, std::string_view(about));
  insert.Bind(7, std::string_view(note));
  return insert.Run();
}

Result<bool> RowWriter::Insert(const planning::EnginePromise& promise) {
  UCUDNN_ASSIGN_OR_RETURN(const int64_t kernel, Kernel(promise.problem));
  return InsertPromise(connection_, kernel, promise);
}

}  // namespace ucudnn::db

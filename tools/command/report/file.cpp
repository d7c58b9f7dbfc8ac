#include "command/report/file.h"

#include <algorithm>
#include <utility>

#include "base/json_members.h"
#include "base/text.h"
#include "base/text_file.h"

namespace ucudnn::command {
Result<RunReport> ParseReport(const std::string& json) {
  const Result<JsonValue> parsed = ParseJson(json);
  if (!parsed.ok()) {
    return Status::Error(parsed.message() +
                         "; expected what --report or `ucudnn workspace --json` wrote");
  }
  Status fault;
  RunReport report;
  json::Read(JsonPlace(&*parsed, "", fault), report);
  if (!fault.ok()) return fault;
  return report;
}

Result<RunReport> ReadReport(const std::string& path) {
  UCUDNN_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path));
  Result<RunReport> report = ParseReport(text);
  if (!report.ok()) return Status::Error(Quoted(path) + ": " + report.message());
  if (report->split) {
    for (RankEntry& rank : report->split->ranks) {
      rank.source = path;
      rank.device = report->device;
    }
  }
  return report;
}

StepTimes StepTimesOf(const RankEntry& rank) {
  StepTimes times;
  std::vector<double> exposed(rank.kernels.size());
  std::optional<double> begin;
  double end = 0;
  for (const StepCallEntry& call : rank.step.calls) {
    for (const StepSpanEntry& span : call.spans) {
      begin = std::min(begin.value_or(span.begin_ms), span.begin_ms);
      end = std::max(end, span.begin_ms + span.length_ms);
      if (span.span == StepSpan::kExchange) times.exchange_ms += span.length_ms;
      if (span.span == StepSpan::kSum) times.sum_ms += span.length_ms;
      if (span.span == StepSpan::kAwaitSum) times.exposed_sum_ms += span.length_ms;
      if (span.span != StepSpan::kAwaitExchange) continue;
      times.exposed_exchange_ms += span.length_ms;
      exposed[call.kernel] += span.length_ms;
    }
  }
  times.step_ms = end - begin.value_or(0);
  const auto worst = std::max_element(exposed.begin(), exposed.end());
  if (worst != exposed.end() && *worst > 0) {
    times.worst = static_cast<size_t>(worst - exposed.begin());
  }
  return times;
}

Status JoinSplitJob(SplitJob more, SplitJob& job) {
  if (more.grid != job.grid) {
    return Status::Error("the grid is " + more.grid.Text() + ", and " + job.grid.Text() +
                         " in the reports before");
  }
  for (RankEntry& rank : more.ranks) {
    const auto same = std::find_if(job.ranks.begin(), job.ranks.end(),
                                   [&](const RankEntry& one) { return one.rank == rank.rank; });
    if (same != job.ranks.end()) {
      return Status::Error("rank " + std::to_string(rank.rank) + " is also in " +
                           Quoted(same->source));
    }
    job.ranks.push_back(std::move(rank));
  }
  for (RefusedEntry& one : more.refused) {
    const auto same =
        std::find_if(job.refused.begin(), job.refused.end(),
                     [&](const RefusedEntry& known) { return known.what == one.what; });
    if (same == job.refused.end()) {
      job.refused.push_back(std::move(one));
    } else {
      same->count += std::min(one.count, kMostJsonBytes - same->count);
    }
  }
  std::sort(job.ranks.begin(), job.ranks.end(),
            [](const RankEntry& a, const RankEntry& b) { return a.rank < b.rank; });
  return Status::Ok();
}

}  // namespace ucudnn::command

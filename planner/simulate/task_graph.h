// The input of a simulation: tasks that take time, fill resources, stand in queues and wait for
// each other. Plain values; thread-compatible. Resources are shared by tasks, queues order tasks,
// and dependencies make one task wait for another. Resources, queues and dependencies express:
//
//   device                a resource; its slots are how many CUDA kernels it can run at once
//   stream                a queue
//   event, join           a dependency; a task of no duration if many wait for many
//   link                  a resource with one slot for each direction
//   latency of a message  a task on no resource, so that the next message may be sent (Send)
//   host thread           a queue of launches; each CUDA kernel waits for its launch
//   captured graph        one launch, for which all CUDA kernels of the graph wait
//   all-reduce            a message on each of its links, and a join that waits for all of them
#pragma once

#include <limits>
#include <string>
#include <vector>

namespace ucudnn::simulate {

// The ids are positions in the lists of a TaskGraph.
using TaskId = int;
using ResourceId = int;
using QueueId = int;
inline constexpr int kNone = -1;

// A resource runs at most `slots` tasks at a time. Further tasks wait, and begin in the order in
// which they became ready. Among tasks that become ready at the same moment, the smallest id begins
// first. A task of no duration and on no resource does not delay the tasks that wait for it. If the
// shares of running tasks add up to more than 1, each task is slower by a factor of that sum.
struct Resource {
  std::string name;
  int slots = std::numeric_limits<int>::max();
};

struct Queue {
  std::string name;
};

// A task is ready once all tasks of `after` and the preceding task of its queue have ended. A queue
// orders its tasks by id.
struct Task {
  std::string name;        // used in messages; may be empty
  double duration_ms = 0;  // its duration if it is alone on its resource
  // The resource on which it runs; kNone: it begins as soon as it is ready.
  ResourceId resource = kNone;
  double share = 1;           // share of the resource, 0 to 1, rounded down to a multiple of 2^-32
  QueueId queue = kNone;      // kNone: only `after` delays it
  std::vector<TaskId> after;  // in any order; may name tasks that are added later
};

// One direction of a link.
struct Link {
  ResourceId resource = kNone;
  double gb_per_s = 0;  // 10^9 bytes a second
  // Time between the last byte sent and the beginning of tasks that wait for the message.
  double latency_us = 0;
};

// The functions of TaskGraph do not check ids and values; Simulate() does.
struct TaskGraph {
  std::vector<Resource> resources;
  std::vector<Queue> queues;
  std::vector<Task> tasks;

  ResourceId AddResource(std::string name, int slots = std::numeric_limits<int>::max());
  QueueId AddQueue(std::string name);
  TaskId Add(Task task);

  // Adds a message and, if the link has a latency, a task for the latency. Returns the task for
  // which the receiver waits.
  TaskId Send(const Link& link, double bytes, std::vector<TaskId> after);
};

}  // namespace ucudnn::simulate

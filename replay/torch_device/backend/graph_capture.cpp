#include "graph_capture.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <ATen/core/Tensor.h>

#include <cstdlib>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <unordered_map>
#include <vector>

#include "allocator.h"
#include "hip_runtime.h"
#include "host_view.h"
#include "stream.h"

namespace asmevo::torch_device {
namespace {

using torch::jit::Stack;
using Tensors = std::vector<at::Tensor>;

/// What a graph needs as long as it may run.
struct Capture {
    std::vector<std::unique_ptr<std::function<void()>>> work;
    std::set<void*> live;  // allocated during the capture and held by tensors
    std::set<void*> dead;  // given up by tensors, still written and read by the graph
};

struct State {
    std::mutex mutex;
    std::shared_ptr<Capture> underway;
    std::map<int64_t, std::shared_ptr<Capture>> ended;
    std::unordered_map<void*, std::weak_ptr<Capture>> owners;
    std::string error;
    int64_t next_id = 1;
};

State& state() {
    static State& instance = *new State;
    return instance;
}

void note_error(const char* text) {
    std::lock_guard lock(state().mutex);
    if (state().error.empty()) {
        state().error = text;
    }
}

/// A node of the graph. No exception may pass the runtime between us and the caller of the replay.
void run_work(void* data) {
    {
        std::lock_guard lock(state().mutex);
        if (!state().error.empty()) {
            return;
        }
    }
    try {
        const at::AutoDispatchBelowADInplaceOrView below_autograd;
        (*static_cast<std::function<void()>*>(data))();
    } catch (const c10::Error& error) {
        note_error(error.what_without_backtrace());
    } catch (const std::exception& error) {
        note_error(error.what());
    }
}

void append_tensors(const c10::IValue& value, Tensors& tensors) {
    if (value.isTensor()) {
        tensors.push_back(value.toTensor());
    } else if (value.isTensorList()) {
        for (const at::Tensor& tensor : value.toTensorVector()) {
            tensors.push_back(tensor);
        }
    } else if (value.isOptionalTensorList()) {
        for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec()) {
            tensors.push_back(tensor.value_or(at::Tensor()));
        }
    }
}

/// Arguments that the operation writes to. native_batch_norm does not declare its running statistics.
bool is_written(const c10::FunctionSchema& schema, size_t index) {
    const c10::AliasInfo* alias = schema.arguments()[index].alias_info();
    return (alias && alias->isWrite()) ||
           (schema.name() == "aten::native_batch_norm" && (index == 3 || index == 4));
}

/// The argument that a return is; -1 for a new tensor.
int64_t find_returned_argument(const c10::FunctionSchema& schema, const c10::Argument& returned) {
    const c10::AliasInfo* alias = returned.alias_info();
    if (!alias || !alias->isWrite()) {
        return -1;
    }
    for (size_t i = 0; i < schema.arguments().size(); i++) {
        const c10::AliasInfo* other = schema.arguments()[i].alias_info();
        if (other && other->beforeSets() == alias->beforeSets()) {
            return static_cast<int64_t>(i);
        }
    }
    return -1;
}

/// Contents of tensors, put back at the end: shapes of results are found by running the operation.
class Contents {
  public:
    explicit Contents(const Tensors& tensors) {
        for (const at::Tensor& tensor : tensors) {
            if (tensor.defined() && tensor.numel() > 0) {
                at::Tensor view = tensor.is_cuda() ? views_.view_of(tensor) : tensor;
                saved_.emplace_back(view, view.clone());
            }
        }
    }
    void put_back() {
        for (auto& [view, copy] : saved_) {
            view.copy_(copy);
        }
    }

  private:
    HostViews views_;
    std::vector<std::pair<at::Tensor, at::Tensor>> saved_;
};

/// How an operation's returns come about in a replay.
struct Returns {
    std::vector<int64_t> arguments;  // the argument that each return is, or -1
    bool has_new = false;
};

Returns classify_returns(const c10::FunctionSchema& schema) {
    Returns result;
    for (const c10::Argument& returned : schema.returns()) {
        result.arguments.push_back(find_returned_argument(schema, returned));
        result.has_new |= result.arguments.back() < 0;
    }
    return result;
}

void overwrite(const at::Tensor& target, const at::Tensor& source) {
    if (!target.defined() || target.is_same(source)) {
        return;
    }
    TORCH_CHECK(source.sizes() == target.sizes(),
                "an operation of a CUDA graph gave another shape at the replay");
    HostViews views;
    views.view_of(target).copy_(views.view_of(source));
}

/// Runs a recorded operation and puts its new results where the capture said they would be.
void replay_operation(const c10::OperatorHandle& op, const Stack& arguments,
                      const std::vector<int64_t>& returned, const Tensors& results,
                      RunOperation run) {
    Stack stack = arguments;
    run(op, &stack);
    size_t next = 0;
    for (size_t i = 0; i < returned.size(); i++) {
        if (returned[i] >= 0) {
            continue;
        }
        Tensors fresh;
        append_tensors(stack[stack.size() - returned.size() + i], fresh);
        for (const at::Tensor& tensor : fresh) {
            overwrite(results[next++], tensor);
        }
    }
}

/// Whether all that is written already has its size: an empty `out` would be resized.
bool has_empty_output(const Tensors& written) {
    for (const at::Tensor& tensor : written) {
        if (tensor.defined() && tensor.numel() == 0) {
            return true;
        }
    }
    return false;
}

}  // namespace

void refuse_in_capture(const std::string& what) {
    check(kHipErrorStreamCaptureUnsupported, what.c_str());
    std::abort();  // check throws for every error
}

void capture_work(std::function<void()> work) {
    auto owned = std::make_unique<std::function<void()>>(std::move(work));
    void* data = owned.get();
    {
        std::lock_guard lock(state().mutex);
        TORCH_CHECK_NOT_IMPLEMENTED(state().underway,
                                    "torch operations are captured by torch.cuda.CUDAGraph only, "
                                    "not by a capture that was begun through HIP");
        state().underway->work.push_back(std::move(owned));
    }
    check(hip().hipLaunchHostFunc(handle_of(current_stream()), &run_work, data),
          "hipLaunchHostFunc");
}

void capture_operation(const c10::OperatorHandle& op, Stack* stack, RunOperation run) {
    const c10::FunctionSchema& schema = op.schema();
    if (op.hasTag(at::Tag::dynamic_output_shape) || op.hasTag(at::Tag::data_dependent_output)) {
        refuse_in_capture(schema.name() + " waits for its result");
    }
    const size_t first = stack->size() - schema.arguments().size();
    Stack arguments(stack->begin() + static_cast<ptrdiff_t>(first), stack->end());
    Tensors written;
    for (size_t i = 0; i < arguments.size(); i++) {
        if (is_written(schema, i)) {
            append_tensors(arguments[i], written);
        }
    }
    const Returns returns = classify_returns(schema);
    Tensors results;
    if (returns.has_new || has_empty_output(written)) {
        Contents contents(written);
        run(op, stack);
        contents.put_back();
        for (size_t i = 0; i < returns.arguments.size(); i++) {
            if (returns.arguments[i] < 0) {
                append_tensors((*stack)[stack->size() - returns.arguments.size() + i], results);
            }
        }
    } else {
        torch::jit::drop(*stack, arguments.size());
        for (const int64_t index : returns.arguments) {
            stack->push_back(arguments[static_cast<size_t>(index)]);
        }
    }
    capture_work([op, arguments = std::move(arguments), returned = returns.arguments,
                  results = std::move(results), run] {
        replay_operation(op, arguments, returned, results, run);
    });
}

void begin_capture() {
    std::lock_guard lock(state().mutex);
    TORCH_CHECK(!state().underway, "another CUDA graph is being captured in this process");
    state().underway = std::make_shared<Capture>();
}

int64_t end_capture() {
    std::lock_guard lock(state().mutex);
    const int64_t id = state().next_id++;
    state().ended[id] = std::move(state().underway);
    state().underway = nullptr;
    return id;
}

void release_capture(int64_t id) {
    std::shared_ptr<Capture> capture;
    {
        std::lock_guard lock(state().mutex);
        const auto found = state().ended.find(id);
        if (found == state().ended.end() || !found->second) {
            return;
        }
        capture = std::move(found->second);
        state().ended.erase(found);
        for (void* address : capture->live) {
            state().owners.erase(address);
        }
    }
    // The recorded work gives up tensors, whose memory may be the graph's own.
    capture->work.clear();
    std::set<void*> dead;
    {
        std::lock_guard lock(state().mutex);
        dead.swap(capture->dead);
        for (void* address : dead) {
            state().owners.erase(address);
        }
    }
    for (void* address : dead) {
        free_device_memory(address);
    }
}

std::string take_replay_error() {
    std::lock_guard lock(state().mutex);
    return std::exchange(state().error, std::string());
}

void note_allocation(void* address) {
    if (!address || !is_capturing()) {
        return;
    }
    std::lock_guard lock(state().mutex);
    if (state().underway) {
        state().underway->live.insert(address);
        state().owners[address] = state().underway;
    }
}

bool is_kept_by_graph(void* address) {
    std::lock_guard lock(state().mutex);
    const auto found = state().owners.find(address);
    if (found == state().owners.end()) {
        return false;
    }
    const std::shared_ptr<Capture> owner = found->second.lock();
    if (!owner) {
        state().owners.erase(found);
        return false;
    }
    owner->live.erase(address);
    owner->dead.insert(address);
    return true;
}

}  // namespace asmevo::torch_device

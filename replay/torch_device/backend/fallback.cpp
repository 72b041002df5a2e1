#include "fallback.h"

#include <ATen/core/ivalue.h>

#include <algorithm>
#include <string_view>

#include "generator.h"
#include "graph_capture.h"
#include "hip_runtime.h"
#include "host_view.h"
#include "precision.h"
#include "stream.h"

namespace asmevo::torch_device {
namespace {

using c10::IValue;
using OptionalTensors = c10::List<std::optional<at::Tensor>>;

/// Operations that take tensors of the CPU beside those of the device, as on a CUDA build: indices,
/// lengths, and lists whose members may live apart.
bool may_mix_devices(std::string_view name) {
    for (std::string_view prefix :
         {"aten::_foreach_", "aten::_fused_", "aten::_amp_", "aten::_ctc_loss",
          "aten::_pad_packed", "aten::_pack_padded"}) {
        if (name.substr(0, prefix.size()) == prefix) {
            return true;
        }
    }
    return false;
}

bool may_index_from_host(std::string_view name) {
    return name == "aten::index" || name == "aten::_index_put_impl_" ||
           name == "aten::index_put_" || name == "aten::index_put" ||
           name == "aten::_unsafe_index" || name == "aten::_unsafe_index_put";
}

/// Replaces the CUDA arguments of one call by what the CPU kernel takes.
class Arguments {
  public:
    Arguments(const c10::FunctionSchema& schema, bool in_float)
        : schema_(schema), views_(in_float), in_float_(in_float) {}

    void to_host(torch::jit::Stack& stack) {
        const auto& declared = schema_.arguments();
        const size_t first = stack.size() - declared.size();
        for (size_t i = 0; i < declared.size(); i++) {
            IValue& value = stack[first + i];
            const c10::AliasInfo* alias = declared[i].alias_info();
            is_written_ = alias && alias->isWrite();
            if (value.isNone()) {
                give_default_generator(declared[i], value);
            } else if (in_float_ && value.isInt() && declared[i].name() == "dtype" &&
                       is_half(static_cast<at::ScalarType>(value.toInt()))) {
                value = static_cast<int64_t>(at::kFloat);
            } else {
                replace(value);
            }
        }
        check_devices();
    }

    HostViews& views() { return views_; }

  private:
    at::Tensor host_of(const at::Tensor& tensor, bool is_index = false) {
        if (!tensor.defined()) {
            return tensor;
        }
        if (tensor.is_cuda()) {
            has_device_ = true;
            return views_.view_of(tensor, is_written_);
        }
        has_host_ |= tensor.is_cpu() && tensor.dim() > 0 && !is_index;
        return tensor;
    }

    void replace(IValue& value) {
        if (value.isTensor()) {
            value = host_of(value.toTensor());
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> hosts;
            for (const at::Tensor& tensor : value.toTensorVector()) {
                hosts.push_back(host_of(tensor));
            }
            value = std::move(hosts);
        } else if (value.isOptionalTensorList()) {
            const bool is_index = may_index_from_host(schema_.name());
            OptionalTensors hosts;
            for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorList().vec()) {
                hosts.push_back(tensor ? std::optional(host_of(*tensor, is_index)) : std::nullopt);
            }
            value = std::move(hosts);
        } else if (value.isDevice()) {
            if (value.toDevice().is_cuda()) {
                value = c10::Device(c10::DeviceType::CPU);
            }
        } else if (value.isGenerator()) {
            value = next_host_generator(value.toGenerator());
        }
    }

    /// An operation that is given no generator draws from the device's own, not from the CPU's.
    void give_default_generator(const c10::Argument& declared, IValue& value) {
        static const auto kOptionalGenerator = c10::OptionalType::create(c10::GeneratorType::get());
        if (*declared.type() == *kOptionalGenerator) {
            value = next_host_generator(default_generator());
        }
    }

    void check_devices() const {
        TORCH_CHECK(!has_device_ || !has_host_ || may_mix_devices(schema_.name()),
                    "Expected all tensors to be on the same device, but found at least two "
                    "devices, cuda:0 and cpu! (when checking the arguments of ",
                    schema_.name(), ")");
    }

    const c10::FunctionSchema& schema_;
    HostViews views_;
    bool in_float_;
    bool is_written_ = false;  // the argument at hand
    bool has_device_ = false;
    bool has_host_ = false;
};

void results_to_device(const c10::FunctionSchema& schema, HostViews& views,
                       torch::jit::Stack& stack) {
    const size_t first = stack.size() - schema.returns().size();
    const bool keeps_float = keeps_float_statistics(schema.name());
    for (size_t i = first; i < stack.size(); i++) {
        IValue& value = stack[i];
        const bool may_round = i == first || !keeps_float;
        if (value.isTensor()) {
            value = views.to_device(value.toTensor(), may_round);
        } else if (value.isTensorList()) {
            c10::List<at::Tensor> results;
            for (const at::Tensor& tensor : value.toTensorVector()) {
                results.push_back(views.to_device(tensor, may_round));
            }
            value = std::move(results);
        }
    }
}

/// CUDA's softmax of half precision may give float, and then takes the gradient of that; the CPU's has
/// one type. Both are computed in float here.
class SoftmaxTypes {
  public:
    void widen(const c10::FunctionSchema& schema, torch::jit::Stack& stack) {
        const std::string& name = schema.name();
        const size_t first = stack.size() - schema.arguments().size();
        if (name == "aten::_softmax" || name == "aten::_log_softmax") {
            if (stack[first + 2].toBool()) {
                stack[first] = stack[first].toTensor().to(at::kFloat);
                stack[first + 2] = false;
            }
        } else if (name == "aten::_softmax_backward_data" ||
                   name == "aten::_log_softmax_backward_data") {
            IValue& input_type = stack[first + 3];
            if (input_type.toScalarType() != stack[first].toTensor().scalar_type()) {
                type_ = input_type.toScalarType();
                input_type = static_cast<int64_t>(at::kFloat);
                if (schema.arguments().size() > 4) {
                    out_ = stack[first + 4].toTensor();
                    stack[first + 4] = out_.to(at::kFloat);
                }
            }
        }
    }

    void narrow(torch::jit::Stack& stack) const {
        if (out_.defined()) {
            out_.copy_(stack.back().toTensor());
            stack.back() = out_;
        } else if (type_) {
            stack.back() = stack.back().toTensor().to(*type_);
        }
    }

  private:
    std::optional<at::ScalarType> type_;
    at::Tensor out_;
};

void run(const c10::OperatorHandle& op, torch::jit::Stack& stack, bool in_float) {
    const c10::FunctionSchema& schema = op.schema();
    check_device();
    Arguments arguments(schema, in_float);
    arguments.to_host(stack);
    SoftmaxTypes softmax;
    softmax.widen(schema, stack);
    op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), &stack);
    softmax.narrow(stack);
    arguments.views().write_back();
    results_to_device(schema, arguments.views(), stack);
}

bool has_half_operand(const c10::FunctionSchema& schema, const torch::jit::Stack& stack) {
    return std::any_of(stack.end() - schema.arguments().size(), stack.end(), [](const IValue& value) {
        return (value.isTensor() && is_half(value.toTensor().scalar_type())) ||
               (value.isTensorList() && !value.toTensorVector().empty() &&
                is_half(value.toTensorVector().front().scalar_type()));
    });
}

void run_now(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    const c10::FunctionSchema& schema = op.schema();
    TORCH_CHECK_NOT_IMPLEMENTED(
        op.hasKernelForDispatchKey(c10::DispatchKey::CPU) ||
            op.hasKernelForDispatchKey(c10::DispatchKey::CompositeExplicitAutograd),
        "the emulated device has no ", op.operator_name(),
        ": torch has a CUDA kernel for it, but none for the CPU, which is what runs here");
    if (!has_half_operand(schema, *stack)) {
        run(op, *stack, false);
        return;
    }
    if (accumulates_in_float(schema.name())) {
        run(op, *stack, true);
        return;
    }
    const size_t first = stack->size() - schema.arguments().size();
    const torch::jit::Stack arguments(stack->begin() + first, stack->end());
    try {
        run(op, *stack, false);
    } catch (const c10::Error& error) {
        if (!is_lack_of_half_kernel(error.what_without_backtrace())) {
            throw;
        }
        stack->resize(first);
        stack->insert(stack->end(), arguments.begin(), arguments.end());
        run(op, *stack, true);
    }
}

}  // namespace

void run_on_host(const c10::OperatorHandle& op, torch::jit::Stack* stack) {
    if (is_capturing()) {
        capture_operation(op, stack, &run_now);
    } else {
        run_now(op, stack);
    }
}

}  // namespace asmevo::torch_device

// What Frida runs inside the target: loads the resident C library and calls it. No hook of Frida's is used, and
// nothing here runs when a kernel is launched.
'use strict';

const ERROR_BYTES = 512;
let library = null;
let isOpen = false;

function call(name, result, types, values) {
    const f = new NativeFunction(library.getExportByName(name), result, types);
    return f(...values);
}

// Calls a function whose last arguments are a buffer for an error; throws what it wrote there.
function callChecked(name, types, values) {
    const error = Memory.alloc(ERROR_BYTES);
    const result =
        call(name, 'int', [...types, 'pointer', 'size_t'], [...values, error, ERROR_BYTES]);
    if (result < 0) {
        throw new Error(error.readUtf8String());
    }
    return result;
}

// Ends the session if it is ours: another asmevo may have one, which kept us from opening it.
function close() {
    const wasOpen = isOpen;
    isOpen = false;
    return wasOpen ? call('asmevo_capture_close', 'int', [], []) : 0;
}

rpc.exports = {
    load(path) {
        library = Module.load(path);
        return call('asmevo_capture_version', 'int', [], []);
    },

    // Addresses of the runtime's lists of loaded code objects: the emulated device's, or ROCr's, one a copy.
    findDebugLists() {
        const found = [];
        for (const module of Process.enumerateModules()) {
            if (/^lib(hsa-runtime64|amdhip64)\.so/.test(module.name)) {
                const address = module.findExportByName('_amdgpu_r_debug');
                if (address !== null) {
                    found.push(address.toString());
                }
            }
        }
        return found;
    },

    open(hipPaths) {
        const descriptor =
            callChecked('asmevo_capture_open', ['pointer'], [Memory.allocUtf8String(hipPaths)]);
        isOpen = true;
        return descriptor;
    },

    reserve(bytes) {
        return callChecked('asmevo_capture_reserve', ['uint64'], [bytes]);
    },

    hook() {
        return callChecked('asmevo_capture_hook', [], []);
    },

    close: close,

    // Called when the script is unloaded, also because whoever attached is gone.
    dispose: close,
};

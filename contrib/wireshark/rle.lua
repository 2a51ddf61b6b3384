-- Wireshark dissector for Return Link Encapsulation (ETSI EN 301 545-2) in captures of a terminal's bursts.
--
-- Each record of the capture is one burst's frame PDU, of link type DLT_USER0, as bentpipe writes them for return links with
-- `encapsulation = "rle"` or "rle-crc". This script shows PPDUs, joins fragments, checks the CRC-32 or the sequence number
-- behind them and hands packets to the dissectors of IPv4 and IPv6:
--
--     tshark -X lua_script:contrib/wireshark/rle.lua -r pisa-satellite-bursts.pcap
--     cp contrib/wireshark/rle.lua ~/.local/lib/wireshark/plugins/        # for good
--
-- Protocol types are expected to be left out or of one byte. Bursts have to be of one terminal.
--
-- Licence: MIT OR Apache-2.0, as the rest of bentpipe.

local rle = Proto("rle", "Return Link Encapsulation")

local KINDS = { [0] = "continuation", [1] = "end", [2] = "start", [3] = "full" }

local f = {
    kind = ProtoField.uint8("rle.ppdu", "PPDU", base.DEC, KINDS, 0xc0),
    length = ProtoField.uint16("rle.length", "Length", base.DEC, nil, 0x3ff8),
    label_type = ProtoField.uint8("rle.label_type", "ALPDU label type", base.DEC, nil, 0x06),
    suppressed = ProtoField.bool("rle.type_suppressed", "Protocol type left out", 8, nil, 0x01),
    frag_id = ProtoField.uint8("rle.frag_id", "Fragment-Id", base.DEC, nil, 0x07),
    use_crc = ProtoField.bool("rle.use_crc", "CRC-32 behind the packet", 16, nil, 0x8000),
    total = ProtoField.uint16("rle.total_length", "Total length", base.DEC, nil, 0x7ff8),
    type = ProtoField.uint8("rle.type", "Compressed protocol type", base.HEX),
    fragment = ProtoField.bytes("rle.fragment", "Fragment"),
    sequence = ProtoField.uint8("rle.sequence", "Sequence number"),
    crc_status = ProtoField.uint8("rle.crc.status", "CRC-32 status", base.DEC, { [0] = "Bad", [1] = "Good" }),
    padding = ProtoField.bytes("rle.padding", "Padding"),
    problem = ProtoField.string("rle.problem", "Problem"),
}
rle.fields = f

local e_problem = ProtoExpert.new("rle.expert", "RLE problem", expert.group.MALFORMED, expert.severity.WARN)
rle.experts = { e_problem }

-- Lua 5.2 has bit32, Wireshark's own library is bit, and Lua 5.3 has operators that others cannot even parse.
local xor = (bit32 or bit or {}).bxor or load("return function(a, b) return (a ~ b) & 0xffffffff end")()

-- Bit by bit: a capture of bursts is small.
local function crc32(bytes)
    local register = 0xffffffff
    for index = 1, #bytes do
        register = xor(register, bytes:byte(index) * 16777216) % 4294967296
        for _ = 1, 8 do
            local carry = register >= 2147483648
            register = (register * 2) % 4294967296
            if carry then register = xor(register, 0x04c11db7) % 4294967296 end
        end
    end
    return register
end

local partial, expected -- by Fragment-Id
local frames            -- what ends in a frame: frame number -> list of { packet, ... }, of the first pass

function rle.init()
    partial, expected, frames = {}, {}, {}
end

-- The EtherType of an ALPDU's packet, and where it begins.
local function kind_of(alpdu, suppressed)
    local at, value = 1, 0x30
    if not suppressed then
        at, value = 2, alpdu:byte(1)
    end
    if value == 0x30 then
        local version = math.floor((alpdu:byte(at) or 0) / 16)
        value = version == 4 and 0x0d or version == 6 and 0x11
    end
    return ({ [0x0d] = 0x0800, [0x0e] = 0x0806, [0x10] = 0x22f1, [0x11] = 0x86dd })[value], at
end

-- Joins fragments. What it returns: a problem, or the packet, its EtherType, its number, whether its CRC is good.
local function finish(id, bytes)
    local start = partial[id]
    partial[id] = nil
    if not start then return { problem = "fragment without a start" } end
    local alpdu = start.bytes .. bytes
    if #alpdu ~= start.total then return { problem = "not as long as its total length" } end
    local trailer = start.crc and 4 or 1
    local kind, at = kind_of(alpdu, start.suppressed)
    if not kind then return { problem = "unknown protocol type" } end
    local packet = alpdu:sub(at, #alpdu - trailer)
    if not start.crc then
        local number = alpdu:byte(#alpdu)
        local wanted = expected[id]
        expected[id] = (number + 1) % 256
        local wrong = wanted and number ~= 0 and number ~= wanted and "packets before this one were lost"
        return { packet = packet, kind = kind, number = number, problem = wrong or nil }
    end
    local covered = string.char(math.floor(kind / 256), kind % 256) .. packet .. alpdu:sub(-4)
    local good = crc32(covered) == 0
    return { packet = good and packet, kind = kind, good = good and 1 or 0, problem = not good and "bad CRC-32" or nil }
end

-- The PPDUs of a burst: kind, id or flags, bounds; and on the first pass what ends in them.
local function walk(tvb, visit)
    local at = 0
    while at + 2 <= tvb:len() do
        local header = tvb(at, 2):uint()
        if header == 0 then break end
        local kind, length, low = math.floor(header / 16384), math.floor(header / 8) % 2048, header % 8
        if at + 2 + length > tvb:len() or kind == 2 and length < 2 then
            visit({ at = at, kind = kind, problem = "longer than its burst or shorter than its header" })
            return tvb:len()
        end
        visit({ at = at, kind = kind, length = length, low = low })
        at = at + 2 + length
    end
    return at
end

local function take(tvb, ppdu)
    if ppdu.problem then return { problem = ppdu.problem } end
    local body = tvb:raw(ppdu.at + 2, ppdu.length)
    if ppdu.kind == 3 then
        local kind, at = kind_of(body, ppdu.low % 2 == 1)
        return kind and { packet = body:sub(at), kind = kind } or { problem = "unknown protocol type" }
    elseif ppdu.kind == 2 then
        local field = tvb(ppdu.at + 2, 2):uint()
        partial[ppdu.low] = {
            bytes = body:sub(3), crc = field >= 32768, total = math.floor(field / 8) % 4096, suppressed = field % 2 == 1,
        }
    elseif ppdu.kind == 0 then
        local start = partial[ppdu.low]
        if not start then return { problem = "fragment without a start" } end
        start.bytes = start.bytes .. body
    else
        return finish(ppdu.low, body)
    end
    return {}
end

local function show(tvb, ppdu, taken, pinfo, root)
    local tree = root:add(rle, tvb(ppdu.at, ppdu.problem and 2 or 2 + ppdu.length), "PPDU, " .. KINDS[ppdu.kind])
    tree:add(f.kind, tvb(ppdu.at, 1))
    tree:add(f.length, tvb(ppdu.at, 2))
    if ppdu.kind == 3 then
        tree:add(f.label_type, tvb(ppdu.at + 1, 1))
        tree:add(f.suppressed, tvb(ppdu.at + 1, 1))
    else
        tree:add(f.frag_id, tvb(ppdu.at + 1, 1))
    end
    if ppdu.kind == 2 and not ppdu.problem then
        tree:add(f.use_crc, tvb(ppdu.at + 2, 2))
        tree:add(f.total, tvb(ppdu.at + 2, 2))
        tree:add(f.label_type, tvb(ppdu.at + 3, 1))
        tree:add(f.suppressed, tvb(ppdu.at + 3, 1))
    end
    if ppdu.kind ~= 3 and (ppdu.length or 0) > 0 then tree:add(f.fragment, tvb(ppdu.at + 2, ppdu.length)) end
    if taken.number then tree:add(f.sequence, taken.number):set_generated() end
    if taken.good then tree:add(f.crc_status, taken.good):set_generated() end
    if taken.problem then
        tree:add(f.problem, taken.problem):set_generated()
        tree:add_proto_expert_info(e_problem, taken.problem)
    end
    if taken.packet then
        local whole = ByteArray.new(taken.packet, true):tvb("packet")
        DissectorTable.get("ethertype"):try(taken.kind, whole, pinfo, root)
    end
end

function rle.dissector(tvb, pinfo, root)
    pinfo.cols.protocol = "RLE"
    local first = not frames[pinfo.number]
    local list = frames[pinfo.number] or {}
    frames[pinfo.number] = list
    local count = 0
    local at = walk(tvb, function(ppdu)
        count = count + 1
        if first then list[count] = take(tvb, ppdu) end
        show(tvb, ppdu, list[count], pinfo, root)
    end)
    if at < tvb:len() then root:add(f.padding, tvb(at)) end
    return tvb:len()
end

DissectorTable.get("wtap_encap"):add(wtap.USER0, rle)

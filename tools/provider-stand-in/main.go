// A provider that stands in for one that can't be had: it takes its schema from a file, and its cloud is a directory. So
// the real OpenTofu validates, plans, applies and destroys what is written for that provider, by the provider's own schema.
//
// Beside the program lie two files:
//   - `schema.json`: a reduced schema, as those in `crates/provider/schemas`;
//   - `cloud`: the path of the directory.
//
// In the directory:
//   - `KIND-N.json` for each object, holding its values; a test may change or delete it;
//   - `calls`: a line for each call that changed something: `create KIND KIND-N`;
//   - `seen`: a line for each call of a resource or data source: `RPC KIND {"VARIABLE":"value"}`, with the variables
//     that `answers.json` names, and, where it asks for that, how many calls were under way at once;
//   - `answers.json`, written by a test: `data`, `create` and `read` give values by kind and argument, in the place of
//     those that are made up; `replace` names arguments by kind that can't be changed in place; `env` names variables to
//     note; `crowd` (milliseconds) lets each call wait so long for another one to come.
//
// What a configuration leaves out and the provider computes is made up: texts from the argument's name, addresses for
// what is named like one. What a data source reads depends on its configuration alone.
package main

import (
	"context"
	"crypto/sha256"
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"log"
	"math/big"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync/atomic"
	"time"

	"github.com/hashicorp/terraform-plugin-go/tfprotov6"
	"github.com/hashicorp/terraform-plugin-go/tfprotov6/tf6server"
	"github.com/hashicorp/terraform-plugin-go/tftypes"
)

type provider struct {
	tfprotov6.ProviderServer
	cloud     string
	config    *tfprotov6.Schema
	resources map[string]*tfprotov6.Schema
	data      map[string]*tfprotov6.Schema
	underWay  atomic.Int32
}

type values map[string]map[string]any

type answers struct {
	Data, Create, Read values
	Replace            map[string][]string
	Env                []string
	Crowd              int
}

// The schema file.

type fileBlock struct {
	Attributes map[string]fileAttribute
	Blocks     map[string]fileNested
}

type fileNested struct {
	fileBlock
	Mode     string
	MinItems int64 `json:"min_items"`
	MaxItems int64 `json:"max_items"`
}

type fileAttribute struct {
	Type                                    json.RawMessage
	Nested                                  *fileNested
	Required, Optional, Computed, Sensitive bool
}

func typeOf(raw json.RawMessage) tftypes.Type {
	var word string
	if len(raw) == 0 {
		return tftypes.DynamicPseudoType
	}
	if json.Unmarshal(raw, &word) == nil {
		switch word {
		case "string":
			return tftypes.String
		case "number":
			return tftypes.Number
		case "bool":
			return tftypes.Bool
		}
		return tftypes.DynamicPseudoType
	}
	var parts []json.RawMessage
	must(json.Unmarshal(raw, &parts))
	must(json.Unmarshal(parts[0], &word))
	switch word {
	case "list":
		return tftypes.List{ElementType: typeOf(parts[1])}
	case "set":
		return tftypes.Set{ElementType: typeOf(parts[1])}
	case "map":
		return tftypes.Map{ElementType: typeOf(parts[1])}
	}
	var members map[string]json.RawMessage
	must(json.Unmarshal(parts[1], &members))
	types := map[string]tftypes.Type{}
	for name, member := range members {
		types[name] = typeOf(member)
	}
	return tftypes.Object{AttributeTypes: types}
}

func attributesOf(all map[string]fileAttribute) []*tfprotov6.SchemaAttribute {
	var attributes []*tfprotov6.SchemaAttribute
	for _, name := range sorted(all) {
		of := all[name]
		attribute := &tfprotov6.SchemaAttribute{
			Name: name, Required: of.Required, Optional: of.Optional, Computed: of.Computed, Sensitive: of.Sensitive,
		}
		if !of.Required && !of.Optional {
			attribute.Computed = true
		}
		if of.Nested != nil {
			modes := map[string]tfprotov6.SchemaObjectNestingMode{
				"single": tfprotov6.SchemaObjectNestingModeSingle, "group": tfprotov6.SchemaObjectNestingModeSingle,
				"list": tfprotov6.SchemaObjectNestingModeList, "set": tfprotov6.SchemaObjectNestingModeSet,
				"map": tfprotov6.SchemaObjectNestingModeMap,
			}
			attribute.NestedType = &tfprotov6.SchemaObject{
				Attributes: attributesOf(of.Nested.Attributes), Nesting: modes[of.Nested.Mode],
			}
		} else {
			attribute.Type = typeOf(of.Type)
		}
		attributes = append(attributes, attribute)
	}
	return attributes
}

func blockOf(of fileBlock) *tfprotov6.SchemaBlock {
	block := &tfprotov6.SchemaBlock{Attributes: attributesOf(of.Attributes)}
	for _, name := range sorted(of.Blocks) {
		nested := of.Blocks[name]
		modes := map[string]tfprotov6.SchemaNestedBlockNestingMode{
			"single": tfprotov6.SchemaNestedBlockNestingModeSingle, "group": tfprotov6.SchemaNestedBlockNestingModeGroup,
			"list": tfprotov6.SchemaNestedBlockNestingModeList, "set": tfprotov6.SchemaNestedBlockNestingModeSet,
			"map": tfprotov6.SchemaNestedBlockNestingModeMap,
		}
		block.BlockTypes = append(block.BlockTypes, &tfprotov6.SchemaNestedBlock{
			TypeName: name, Block: blockOf(nested.fileBlock), Nesting: modes[nested.Mode],
			MinItems: nested.MinItems, MaxItems: nested.MaxItems,
		})
	}
	return block
}

func schemasOf(blocks map[string]fileBlock) map[string]*tfprotov6.Schema {
	all := map[string]*tfprotov6.Schema{}
	for kind, block := range blocks {
		all[kind] = &tfprotov6.Schema{Block: blockOf(block)}
	}
	return all
}

func sorted[V any](all map[string]V) []string {
	names := make([]string, 0, len(all))
	for name := range all {
		names = append(names, name)
	}
	sort.Strings(names)
	return names
}

// Values.

// Values as JSON has them; what is not known is left out.
func toJSON(value tftypes.Value) any {
	if value.IsNull() || !value.IsKnown() {
		return nil
	}
	switch {
	case value.Type().Is(tftypes.String):
		var text string
		must(value.As(&text))
		return text
	case value.Type().Is(tftypes.Number):
		number := new(big.Float)
		must(value.As(&number))
		of, _ := number.Float64()
		return of
	case value.Type().Is(tftypes.Bool):
		var truth bool
		must(value.As(&truth))
		return truth
	case value.Type().Is(tftypes.Object{}), value.Type().Is(tftypes.Map{}):
		members, all := map[string]tftypes.Value{}, map[string]any{}
		must(value.As(&members))
		for name, member := range members {
			all[name] = toJSON(member)
		}
		return all
	}
	var items []tftypes.Value
	must(value.As(&items))
	all := []any{}
	for _, item := range items {
		all = append(all, toJSON(item))
	}
	return all
}

func fromJSON(kind tftypes.Type, raw any) tftypes.Value {
	if raw == nil {
		return tftypes.NewValue(kind, nil)
	}
	many := func(of func(int) tftypes.Type) []tftypes.Value {
		values := []tftypes.Value{}
		for index, item := range raw.([]any) {
			values = append(values, fromJSON(of(index), item))
		}
		return values
	}
	switch of := kind.(type) {
	case tftypes.List:
		return tftypes.NewValue(kind, many(func(int) tftypes.Type { return of.ElementType }))
	case tftypes.Set:
		return tftypes.NewValue(kind, many(func(int) tftypes.Type { return of.ElementType }))
	case tftypes.Map:
		members := map[string]tftypes.Value{}
		for name, member := range raw.(map[string]any) {
			members[name] = fromJSON(of.ElementType, member)
		}
		return tftypes.NewValue(kind, members)
	case tftypes.Object:
		given, members := raw.(map[string]any), map[string]tftypes.Value{}
		for name, member := range of.AttributeTypes {
			members[name] = fromJSON(member, given[name])
		}
		return tftypes.NewValue(kind, members)
	}
	if kind.Is(tftypes.DynamicPseudoType) {
		return tftypes.NewValue(tftypes.String, fmt.Sprint(raw))
	}
	if kind.Is(tftypes.Number) {
		return tftypes.NewValue(kind, big.NewFloat(raw.(float64)))
	}
	return tftypes.NewValue(kind, raw)
}

// A value for what a provider computes. Lists have as many elements as `many` says.
func madeUp(name string, kind tftypes.Type, mark string, many int) tftypes.Value {
	switch of := kind.(type) {
	case tftypes.List:
		items := []tftypes.Value{}
		for index := range many {
			items = append(items, madeUp(name, of.ElementType, fmt.Sprintf("%s-%d", mark, index), 0))
		}
		return tftypes.NewValue(kind, items)
	case tftypes.Set, tftypes.Map:
		return fromJSON(kind, map[bool]any{true: []any{}, false: map[string]any{}}[kind.Is(tftypes.Set{})])
	case tftypes.Object:
		members := map[string]tftypes.Value{}
		for name, member := range of.AttributeTypes {
			members[name] = madeUp(name, member, mark, 0)
		}
		return tftypes.NewValue(kind, members)
	}
	number := sha256.Sum256([]byte(name + mark))[0]
	switch {
	case kind.Is(tftypes.Number):
		return tftypes.NewValue(kind, int64(number))
	case kind.Is(tftypes.Bool):
		return tftypes.NewValue(kind, false)
	case strings.Contains(name, "_ip") || name == "address":
		return tftypes.NewValue(tftypes.String, fmt.Sprintf("203.0.113.%d", number))
	}
	return tftypes.NewValue(tftypes.String, name+"-"+mark)
}

// Goes through what a configuration leaves out and the provider computes. Elements of sets stay as they are: they could not
// be told apart any more.
func fill(block *tfprotov6.SchemaBlock, value tftypes.Value, with func(string, tftypes.Type, tftypes.Value) tftypes.Value) tftypes.Value {
	if value.IsNull() || !value.IsKnown() {
		return value
	}
	members := map[string]tftypes.Value{}
	must(value.As(&members))
	for _, attribute := range block.Attributes {
		if attribute.Computed {
			members[attribute.Name] = with(attribute.Name, attribute.ValueType(), members[attribute.Name])
		}
	}
	for _, nested := range block.BlockTypes {
		of := members[nested.TypeName]
		if nested.Nesting != tfprotov6.SchemaNestedBlockNestingModeList || of.IsNull() || !of.IsKnown() {
			continue
		}
		var items, filled []tftypes.Value
		must(of.As(&items))
		for _, item := range items {
			filled = append(filled, fill(nested.Block, item, with))
		}
		members[nested.TypeName] = tftypes.NewValue(of.Type(), filled)
	}
	return tftypes.NewValue(value.Type(), members)
}

// Sets what a test answers with.
func set(value tftypes.Value, with map[string]any) tftypes.Value {
	if value.IsNull() || len(with) == 0 {
		return value
	}
	members := map[string]tftypes.Value{}
	must(value.As(&members))
	for name, raw := range with {
		members[name] = fromJSON(value.Type().(tftypes.Object).AttributeTypes[name], raw)
	}
	return tftypes.NewValue(value.Type(), members)
}

func must(err error) {
	if err != nil {
		log.Fatal(err)
	}
}

// The cloud.

func (p *provider) answers() answers {
	found := answers{}
	raw, err := os.ReadFile(filepath.Join(p.cloud, "answers.json"))
	if err == nil {
		must(json.Unmarshal(raw, &found))
	}
	return found
}

func (p *provider) note(file, line string) {
	must(os.MkdirAll(p.cloud, 0o700))
	to, err := os.OpenFile(filepath.Join(p.cloud, file), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	must(err)
	_, err = fmt.Fprintln(to, line)
	must(err)
	must(to.Close())
}

// Notes a call, and waits a little for others where a test wants to see whether there are any.
func (p *provider) saw(rpc, kind string) {
	answers, env := p.answers(), map[string]string{}
	for _, name := range answers.Env {
		env[name] = os.Getenv(name)
	}
	atOnce := p.underWay.Add(1)
	defer p.underWay.Add(-1)
	end := time.Now().Add(time.Duration(answers.Crowd) * time.Millisecond)
	for atOnce < 2 && time.Now().Before(end) {
		time.Sleep(time.Millisecond)
		atOnce = max(atOnce, p.underWay.Load())
	}
	shown, err := json.Marshal(env)
	must(err)
	line := fmt.Sprintf("%s %s %s", rpc, kind, shown)
	if answers.Crowd > 0 {
		line += fmt.Sprintf(" at-once=%d", atOnce)
	}
	p.note("seen", line)
}

func (p *provider) file(name string) string { return filepath.Join(p.cloud, name+".json") }

// GitLab's ids are numbers, and arguments that take them too.
func idFor(kind, name string) string {
	if strings.HasPrefix(kind, "gitlab_") {
		return strings.TrimPrefix(name, kind+"-")
	}
	return name
}

// The name of an object, by what a state says.
func nameOf(kind string, value tftypes.Value) string {
	members := map[string]tftypes.Value{}
	must(value.As(&members))
	var id string
	must(members["id"].As(&id))
	return kind + "-" + strings.TrimPrefix(id, kind+"-")
}

// Makes an object with a number of its own, and returns its name.
func (p *provider) newObject(kind string) string {
	must(os.MkdirAll(p.cloud, 0o700))
	for n := 1; ; n++ {
		name := fmt.Sprintf("%s-%d", kind, n)
		made, err := os.OpenFile(p.file(name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
		if errors.Is(err, os.ErrExist) {
			continue
		}
		must(err)
		must(made.Close())
		return name
	}
}

func (p *provider) put(name string, value tftypes.Value) {
	raw, err := json.MarshalIndent(toJSON(value), "", "  ")
	must(err)
	half := fmt.Sprintf("%s.%d", p.file(name), os.Getpid())
	must(os.WriteFile(half, append(raw, '\n'), 0o600))
	must(os.Rename(half, p.file(name)))
}

func read(schema *tfprotov6.Schema, value *tfprotov6.DynamicValue) tftypes.Value {
	read, err := value.Unmarshal(schema.ValueType())
	must(err)
	return read
}

func written(schema *tfprotov6.Schema, value tftypes.Value) *tfprotov6.DynamicValue {
	written, err := tfprotov6.NewDynamicValue(schema.ValueType(), value)
	must(err)
	return &written
}

// The protocol.

func (p *provider) GetMetadata(context.Context, *tfprotov6.GetMetadataRequest) (*tfprotov6.GetMetadataResponse, error) {
	return &tfprotov6.GetMetadataResponse{}, nil
}

func (p *provider) GetProviderSchema(context.Context, *tfprotov6.GetProviderSchemaRequest) (*tfprotov6.GetProviderSchemaResponse, error) {
	return &tfprotov6.GetProviderSchemaResponse{Provider: p.config, ResourceSchemas: p.resources, DataSourceSchemas: p.data}, nil
}

func (p *provider) GetFunctions(context.Context, *tfprotov6.GetFunctionsRequest) (*tfprotov6.GetFunctionsResponse, error) {
	return &tfprotov6.GetFunctionsResponse{}, nil
}

func (p *provider) ValidateProviderConfig(_ context.Context, request *tfprotov6.ValidateProviderConfigRequest) (*tfprotov6.ValidateProviderConfigResponse, error) {
	return &tfprotov6.ValidateProviderConfigResponse{PreparedConfig: request.Config}, nil
}

func (p *provider) ConfigureProvider(context.Context, *tfprotov6.ConfigureProviderRequest) (*tfprotov6.ConfigureProviderResponse, error) {
	p.saw("configure", "provider")
	return &tfprotov6.ConfigureProviderResponse{}, nil
}

func (p *provider) StopProvider(context.Context, *tfprotov6.StopProviderRequest) (*tfprotov6.StopProviderResponse, error) {
	return &tfprotov6.StopProviderResponse{}, nil
}

func (p *provider) ValidateResourceConfig(context.Context, *tfprotov6.ValidateResourceConfigRequest) (*tfprotov6.ValidateResourceConfigResponse, error) {
	return &tfprotov6.ValidateResourceConfigResponse{}, nil
}

func (p *provider) ValidateDataResourceConfig(context.Context, *tfprotov6.ValidateDataResourceConfigRequest) (*tfprotov6.ValidateDataResourceConfigResponse, error) {
	return &tfprotov6.ValidateDataResourceConfigResponse{}, nil
}

func (p *provider) UpgradeResourceState(_ context.Context, request *tfprotov6.UpgradeResourceStateRequest) (*tfprotov6.UpgradeResourceStateResponse, error) {
	schema := p.resources[request.TypeName]
	state, err := request.RawState.UnmarshalWithOpts(schema.ValueType(), tfprotov6.UnmarshalOpts{})
	if err != nil {
		return nil, err
	}
	return &tfprotov6.UpgradeResourceStateResponse{UpgradedState: written(schema, state)}, nil
}

func (p *provider) ReadResource(_ context.Context, request *tfprotov6.ReadResourceRequest) (*tfprotov6.ReadResourceResponse, error) {
	p.saw("read", request.TypeName)
	schema := p.resources[request.TypeName]
	raw, err := os.ReadFile(p.file(nameOf(request.TypeName, read(schema, request.CurrentState))))
	if errors.Is(err, os.ErrNotExist) {
		return &tfprotov6.ReadResourceResponse{NewState: written(schema, tftypes.NewValue(schema.ValueType(), nil))}, nil
	}
	must(err)
	var found any
	must(json.Unmarshal(raw, &found))
	state := set(fromJSON(schema.ValueType(), found), p.answers().Read[request.TypeName])
	return &tfprotov6.ReadResourceResponse{NewState: written(schema, state)}, nil
}

func (p *provider) PlanResourceChange(_ context.Context, request *tfprotov6.PlanResourceChangeRequest) (*tfprotov6.PlanResourceChangeResponse, error) {
	schema := p.resources[request.TypeName]
	prior, proposed := read(schema, request.PriorState), read(schema, request.ProposedNewState)
	response := &tfprotov6.PlanResourceChangeResponse{PlannedState: request.ProposedNewState}
	if proposed.IsNull() {
		return response, nil
	}
	if prior.IsNull() {
		planned := fill(schema.Block, proposed, func(_ string, kind tftypes.Type, value tftypes.Value) tftypes.Value {
			if value.IsNull() {
				return tftypes.NewValue(kind, tftypes.UnknownValue)
			}
			return value
		})
		response.PlannedState = written(schema, planned)
		return response, nil
	}
	was, is := map[string]tftypes.Value{}, map[string]tftypes.Value{}
	must(prior.As(&was))
	must(proposed.As(&is))
	for _, name := range p.answers().Replace[request.TypeName] {
		if !was[name].Equal(is[name]) {
			path := tftypes.NewAttributePath().WithAttributeName(name)
			response.RequiresReplace = append(response.RequiresReplace, path)
		}
	}
	return response, nil
}

func (p *provider) ApplyResourceChange(_ context.Context, request *tfprotov6.ApplyResourceChangeRequest) (*tfprotov6.ApplyResourceChangeResponse, error) {
	p.saw("apply", request.TypeName)
	kind, schema := request.TypeName, p.resources[request.TypeName]
	prior, planned := read(schema, request.PriorState), read(schema, request.PlannedState)
	response := &tfprotov6.ApplyResourceChangeResponse{NewState: request.PlannedState}
	if planned.IsNull() {
		name := nameOf(kind, prior)
		must(os.Remove(p.file(name)))
		p.note("calls", fmt.Sprintf("delete %s %s", kind, name))
		return response, nil
	}
	what, object := "update", ""
	if prior.IsNull() {
		what, object = "create", p.newObject(kind)
	} else {
		object = nameOf(kind, prior)
	}
	given := p.answers().Create[kind]
	made := fill(schema.Block, planned, func(name string, of tftypes.Type, value tftypes.Value) tftypes.Value {
		if value.IsKnown() {
			return value
		}
		if raw, ok := given[name]; ok {
			return fromJSON(of, raw)
		}
		if name == "id" {
			return tftypes.NewValue(of, idFor(kind, object))
		}
		return madeUp(name, of, object, 1)
	})
	p.put(object, made)
	p.note("calls", fmt.Sprintf("%s %s %s", what, kind, object))
	response.NewState = written(schema, made)
	return response, nil
}

func (p *provider) ReadDataSource(_ context.Context, request *tfprotov6.ReadDataSourceRequest) (*tfprotov6.ReadDataSourceResponse, error) {
	p.saw("data", request.TypeName)
	schema := p.data[request.TypeName]
	config := read(schema, request.Config)
	raw, err := json.Marshal(toJSON(config))
	must(err)
	digest := sha256.Sum256(raw)
	mark := fmt.Sprintf("%x", digest)[:8]
	found := fill(schema.Block, config, func(name string, of tftypes.Type, value tftypes.Value) tftypes.Value {
		switch {
		case !value.IsNull():
			return value
		case name == "id":
			number := fmt.Sprint(binary.BigEndian.Uint32(digest[:]))
			return tftypes.NewValue(of, idFor(request.TypeName, request.TypeName+"-"+number))
		}
		return madeUp(name, of, mark, 3)
	})
	found = set(found, p.answers().Data[request.TypeName])
	return &tfprotov6.ReadDataSourceResponse{State: written(schema, found)}, nil
}

func main() {
	program, err := os.Executable()
	must(err)
	raw, err := os.ReadFile(filepath.Join(filepath.Dir(program), "schema.json"))
	must(err)
	cloud, err := os.ReadFile(filepath.Join(filepath.Dir(program), "cloud"))
	must(err)
	var file struct {
		Provider    string
		Config      fileBlock            `json:"provider_config"`
		Resources   map[string]fileBlock `json:"resources"`
		DataSources map[string]fileBlock `json:"data_sources"`
	}
	must(json.Unmarshal(raw, &file))
	server := &provider{
		cloud:     strings.TrimSpace(string(cloud)),
		config:    &tfprotov6.Schema{Block: blockOf(file.Config)},
		resources: schemasOf(file.Resources),
		data:      schemasOf(file.DataSources),
	}
	must(tf6server.Serve("registry.opentofu.org/"+file.Provider, func() tfprotov6.ProviderServer { return server }))
}

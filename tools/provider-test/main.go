// A provider for tests: its cloud is a directory, and an object of it is one file that a test may read,
// change and delete.
//
//	terraform {
//	  required_providers {
//	    test = { source = "rebuild/test" }
//	  }
//	}
//	provider "test" {
//	  cloud = "/some/directory"            # made when the first object is
//	}
//	resource "test_object" "a" {
//	  name    = "a"                        # the object is the file a.json
//	  content = "text"                     # changed in place
//	  secret  = var.secret                 # sensitive, changed in place
//	  tags    = { role = "edge" }          # computed where it is left out
//	  list    = ["x"]
//	  fills   = test_object.b.name         # sets `filled_by` of that object, as a later resource does
//	  waits   = "/some/file"               # creation ends when this file is there; the object exists before
//	  flips   = true                       # `document` is read as "null" and "[]" by turns: drift for ever
//	}                                      # computed: `address`, `filled_by`, `document`
//	data "test_object" "a" { name = "a" }  # computed: `content`, `address`
//
// What a test can do:
//   - change a member of a.json (`address`, `content`, …), or delete the file: drift;
//   - `"error": "text"` in a.json: every call about that object is answered with the error;
//   - `"keep": "text"` in a.json: it can't be deleted, for that reason;
//   - the file `api` in the cloud: the text `gone` makes every read say that there is no such object, any
//     other text is the error with which every call is answered;
//   - a `content` that begins with `fail: ` fails the create or update with the rest of it, before
//     anything is changed; with `half: ` the object is made or changed, and then it fails;
//   - wait for a.creating, which a creation leaves as long as it goes on, holding the provider's pid.
//
// The journal `calls` in the cloud has a line for each call that changed something: `create a`.
package main

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"github.com/hashicorp/terraform-plugin-sdk/helper/schema"
	"github.com/hashicorp/terraform-plugin-sdk/plugin"
	"github.com/hashicorp/terraform-plugin-sdk/terraform"
)

// How long a creation waits at most, so that a forgotten provider ends by itself.
const patience = 5 * time.Minute

type cloud struct {
	dir     string
	stopped context.Context
}

type object map[string]any

var errGone = errors.New("no such object")

func (c *cloud) file(name string) string { return filepath.Join(c.dir, name) }

// The error that the API answers everything with, if any.
func (c *cloud) api(reading bool) error {
	raw, err := os.ReadFile(c.file("api"))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	if text := strings.TrimSpace(string(raw)); text != "gone" {
		return errors.New(text)
	}
	if reading {
		return errGone
	}
	return nil
}

func (c *cloud) get(name string) (object, error) {
	if err := c.api(true); err != nil {
		return nil, err
	}
	raw, err := os.ReadFile(c.file(name + ".json"))
	if errors.Is(err, os.ErrNotExist) {
		return nil, errGone
	}
	if err != nil {
		return nil, err
	}
	found := object{}
	if err := json.Unmarshal(raw, &found); err != nil {
		return nil, err
	}
	if text, ok := found["error"].(string); ok && text != "" {
		return nil, errors.New(text)
	}
	return found, nil
}

// Writes an object in one go: whoever reads it sees the former or the new one.
func (c *cloud) put(name string, o object) error {
	raw, err := json.MarshalIndent(o, "", "  ")
	if err != nil {
		return err
	}
	if err := os.MkdirAll(c.dir, 0o700); err != nil {
		return err
	}
	half := c.file(fmt.Sprintf(".%s.%d", name, os.Getpid()))
	if err := os.WriteFile(half, append(raw, '\n'), 0o600); err != nil {
		return err
	}
	return os.Rename(half, c.file(name+".json"))
}

func (c *cloud) journal(what, name string) error {
	file, err := os.OpenFile(c.file("calls"), os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	if _, err := fmt.Fprintf(file, "%s %s\n", what, name); err != nil {
		return err
	}
	return file.Close()
}

// Sets or clears `filled_by` of another object; one that is gone is no matter when it is cleared.
func (c *cloud) fill(other, by string) error {
	found, err := c.get(other)
	if errors.Is(err, errGone) && by == "" {
		return nil
	}
	if err != nil {
		return err
	}
	found["filled_by"] = by
	return c.put(other, found)
}

// Takes what is configured over into an object; the rest of it stays as it is.
func configure(d *schema.ResourceData, o object) {
	for _, key := range []string{"content", "secret", "list"} {
		o[key] = d.Get(key)
	}
	if tags, ok := d.GetOk("tags"); ok || o["tags"] == nil {
		o["tags"] = tags
	}
}

func create(d *schema.ResourceData, meta any) error {
	c, name, content := meta.(*cloud), d.Get("name").(string), d.Get("content").(string)
	if err := c.api(false); err != nil {
		return err
	}
	if text, fails := strings.CutPrefix(content, "fail: "); fails {
		return errors.New(text)
	}
	if _, err := os.Stat(c.file(name + ".json")); err == nil {
		return fmt.Errorf("object %q exists already", name)
	}
	o := object{"address": "10.0.0.1", "filled_by": ""}
	configure(d, o)
	if err := c.put(name, o); err != nil {
		return err
	}
	d.SetId(name)
	d.Set("document", "null")
	if err := c.journal("create", name); err != nil {
		return err
	}
	if other := d.Get("fills").(string); other != "" {
		if err := c.fill(other, name); err != nil {
			return err
		}
	}
	if file := d.Get("waits").(string); file != "" {
		if err := c.wait(name, file); err != nil {
			return err
		}
	}
	if err := show(d, o); err != nil {
		return err
	}
	if text, fails := strings.CutPrefix(content, "half: "); fails {
		return errors.New(text)
	}
	return nil
}

func (c *cloud) wait(name, file string) error {
	sign := c.file(name + ".creating")
	if err := os.WriteFile(sign, []byte(fmt.Sprint(os.Getpid())), 0o600); err != nil {
		return err
	}
	defer os.Remove(sign)
	end := time.Now().Add(patience)
	for time.Now().Before(end) {
		if _, err := os.Stat(file); err == nil {
			return nil
		}
		select {
		case <-c.stopped.Done():
			return errors.New("the creation was stopped")
		case <-time.After(10 * time.Millisecond):
		}
	}
	return fmt.Errorf("%s did not come", file)
}

// Puts what the cloud has into the state.
func show(d *schema.ResourceData, o object) error {
	for _, key := range []string{"content", "secret", "list", "tags", "address", "filled_by"} {
		if err := d.Set(key, o[key]); err != nil {
			return err
		}
	}
	return nil
}

func read(d *schema.ResourceData, meta any) error {
	found, err := meta.(*cloud).get(d.Id())
	if errors.Is(err, errGone) {
		d.SetId("")
		return nil
	}
	if err != nil {
		return err
	}
	if d.Get("flips").(bool) {
		turn := map[bool]string{true: "[]", false: "null"}
		d.Set("document", turn[d.Get("document") == "null"])
	}
	return show(d, found)
}

func update(d *schema.ResourceData, meta any) error {
	c, content := meta.(*cloud), d.Get("content").(string)
	// Until all is done, the state keeps what it had.
	d.Partial(true)
	if text, fails := strings.CutPrefix(content, "fail: "); fails {
		return errors.New(text)
	}
	found, err := c.get(d.Id())
	if err != nil {
		return err
	}
	configure(d, found)
	if err := c.put(d.Id(), found); err != nil {
		return err
	}
	if err := c.journal("update", d.Id()); err != nil {
		return err
	}
	if text, fails := strings.CutPrefix(content, "half: "); fails {
		return errors.New(text)
	}
	if was, is := d.GetChange("fills"); was != is {
		for other, by := range map[string]string{was.(string): "", is.(string): d.Id()} {
			if other == "" {
				continue
			}
			if err := c.fill(other, by); err != nil {
				return err
			}
		}
	}
	d.Partial(false)
	return show(d, found)
}

func remove(d *schema.ResourceData, meta any) error {
	c := meta.(*cloud)
	if err := c.api(false); err != nil {
		return err
	}
	found, err := c.get(d.Id())
	if errors.Is(err, errGone) {
		return nil
	}
	if err != nil {
		return err
	}
	if text, ok := found["keep"].(string); ok && text != "" {
		return errors.New(text)
	}
	if other := d.Get("fills").(string); other != "" {
		if err := c.fill(other, ""); err != nil {
			return err
		}
	}
	if err := os.Remove(c.file(d.Id() + ".json")); err != nil {
		return err
	}
	return c.journal("delete", d.Id())
}

// An object is imported by its name.
func adopt(d *schema.ResourceData, meta any) ([]*schema.ResourceData, error) {
	if err := d.Set("name", d.Id()); err != nil {
		return nil, err
	}
	return []*schema.ResourceData{d}, nil
}

func readData(d *schema.ResourceData, meta any) error {
	name := d.Get("name").(string)
	found, err := meta.(*cloud).get(name)
	if err != nil {
		return fmt.Errorf("object %q: %w", name, err)
	}
	d.SetId(name)
	d.Set("content", found["content"])
	return d.Set("address", found["address"])
}

func main() {
	needed := &schema.Schema{Type: schema.TypeString, Required: true, ForceNew: true}
	computed := &schema.Schema{Type: schema.TypeString, Computed: true}
	text := &schema.Schema{Type: schema.TypeString, Optional: true}
	provider := &schema.Provider{
		Schema: map[string]*schema.Schema{"cloud": {Type: schema.TypeString, Required: true}},
		ResourcesMap: map[string]*schema.Resource{"test_object": {
			Create: create, Read: read, Update: update, Delete: remove,
			Importer: &schema.ResourceImporter{State: adopt},
			Schema: map[string]*schema.Schema{
				"name": needed, "content": text, "fills": text, "waits": text,
				"secret":  {Type: schema.TypeString, Optional: true, Sensitive: true},
				"flips":   {Type: schema.TypeBool, Optional: true},
				"list":    {Type: schema.TypeList, Optional: true, Elem: &schema.Schema{Type: schema.TypeString}},
				"tags":    {Type: schema.TypeMap, Optional: true, Computed: true, Elem: &schema.Schema{Type: schema.TypeString}},
				"address": computed, "filled_by": computed, "document": computed,
			},
		}},
		DataSourcesMap: map[string]*schema.Resource{"test_object": {
			Read: readData,
			Schema: map[string]*schema.Schema{
				"name": {Type: schema.TypeString, Required: true}, "content": computed, "address": computed,
			},
		}},
	}
	provider.ConfigureFunc = func(d *schema.ResourceData) (any, error) {
		return &cloud{dir: d.Get("cloud").(string), stopped: provider.StopContext()}, nil
	}
	plugin.Serve(&plugin.ServeOpts{ProviderFunc: func() terraform.ResourceProvider { return provider }})
}

"""Trino's operations, by what they mean to protection."""

from __future__ import annotations

#: They ask which of many things are shown.
FILTERS = frozenset(
    {
        "FilterCatalogs",
        "FilterSchemas",
        "FilterTables",
        "FilterColumns",
        "FilterFunctions",
        "FilterViewQueryOwnedBy",
    }
)
READING = frozenset({"SelectFromColumns"})
VIEWING = frozenset({"CreateViewWithSelectFromColumns"})
RUNNING = frozenset({"ExecuteFunction", "CreateViewWithExecuteFunction"})
#: A procedure does in the source what it likes, such as copying to where no rule is (`system.execute`).
CALLING = frozenset({"ExecuteProcedure"})
#: They are about the queries of one user, whose text may hold values.
WATCHING = frozenset({"ViewQueryOwnedBy", "FilterViewQueryOwnedBy"})
#: Table functions that hand a text to the source, which knows no mask.
PASS_THROUGH = frozenset({"query", "raw_query"})
RENAMING = frozenset(
    {"RenameTable", "RenameView", "RenameMaterializedView", "RenameColumn", "RenameSchema", "AlterColumn"}
)
#: With them somebody acts, or lets others act, as somebody else, or sees what masks are made of.
PRIVILEGED = frozenset(
    {
        "CreateCatalog",
        "DropCatalog",
        "ImpersonateUser",
        "KillQueryOwnedBy",
        "SetSchemaAuthorization",
        "SetTableAuthorization",
        "SetViewAuthorization",
        "SetEntityAuthorization",
        "WriteSystemInformation",
    }
)
PRIVILEGED_ROLES = frozenset({"owner", "engine"})
#: They show no value of a protected column; who may do them is for another of Trino's access controls to say.
ORDINARY = frozenset(
    {
        "AccessCatalog",
        "AddColumn",
        "CreateFunction",
        "CreateMaterializedView",
        "CreateRole",
        "CreateSchema",
        "CreateTable",
        "CreateView",
        "DeleteFromTable",
        "DenySchemaPrivilege",
        "DenyTablePrivilege",
        "DropColumn",
        "DropFunction",
        "DropMaterializedView",
        "DropRole",
        "DropSchema",
        "DropTable",
        "DropView",
        "ExecuteQuery",
        "ExecuteTableProcedure",
        "GrantExecuteFunctionPrivilege",
        "GrantRoles",
        "GrantSchemaPrivilege",
        "GrantTablePrivilege",
        "InsertIntoTable",
        "ReadSystemInformation",
        "RefreshMaterializedView",
        "RevokeRoles",
        "RevokeSchemaPrivilege",
        "RevokeTablePrivilege",
        "SetCatalogSessionProperty",
        "SetColumnComment",
        "SetMaterializedViewProperties",
        "SetSystemSessionProperty",
        "SetTableComment",
        "SetTableProperties",
        "SetViewComment",
        "ShowColumns",
        "ShowCreateFunction",
        "ShowCreateSchema",
        "ShowCreateTable",
        "ShowCurrentRoles",
        "ShowFunctions",
        "ShowRoleGrants",
        "ShowRoles",
        "ShowSchemas",
        "ShowTables",
        "TruncateTable",
        "UpdateTableColumns",
    }
)
